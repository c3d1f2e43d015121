//! A server of pages that deserve criticism.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Path, further header lines, and content.
pub type Page = (&'static str, &'static str, &'static str);

/// Serves pages until the test binary ends; every other path is not found.
pub fn serve(pages: &'static [Page]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
    let address = listener.local_addr().expect("it has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A browser opens connections that it may never use.
            thread::spawn(move || answer(stream, pages));
        }
    });
    address
}

fn answer(mut stream: TcpStream, pages: &[Page]) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines().map_while(Result::ok);
    let request = lines.next()?;
    lines.find(String::is_empty)?;
    let path = request.split(' ').nth(1)?;
    let found = pages.iter().find(|(known, ..)| *known == path);
    let (status, headers, content) = match found {
        Some((_, headers, content)) => ("200 OK", *headers, *content),
        None => ("404 Not Found", "", ""),
    };
    let length = content.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(content.as_bytes()).ok()
}

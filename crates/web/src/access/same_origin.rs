//! Requests that a page of another site has caused: a browser sends its cookies with them, too.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{HOST, HeaderName, ORIGIN};

use crate::problem::Problem;

/// Refuses a change that a page of another site has asked for. Every browser sends `Origin` with a POST, so one without
/// it, and with a cookie, is no form of ours either.
pub fn require(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text(HeaderName::from_static("sec-fetch-site"));
    let origin = text(ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    let is_same = origin.is_some() && origin == text(HOST);
    if is_same && site.is_none_or(|site| site == "same-origin") {
        return Ok(());
    }
    Err(Problem::new(
        403,
        "this change was asked for by a page of another site, or by a program that sent a cookie",
        "open our own page; programs send `Authorization: Bearer TOKEN` in place of a cookie",
    ))
}

/// Whether the name in `Host` means this machine whatever DNS says.
pub fn is_loopback_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let ip = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_our_own_pages_change_anything() {
        let host = ("host", "127.0.0.1:8090");
        assert!(require(&headers(&[host, ("origin", "http://127.0.0.1:8090")])).is_ok());
        for wrong in [
            headers(&[host]),
            headers(&[host, ("origin", "null")]),
            headers(&[host, ("origin", "http://evil.example")]),
            headers(&[host, ("origin", "http://127.0.0.1:8091")]),
            headers(&[host, ("origin", "http://127.0.0.1:8090"), ("sec-fetch-site", "cross-site")]),
            headers(&[("origin", "http://127.0.0.1:8090")]),
        ] {
            assert_eq!(require(&wrong).unwrap_err().status, 403, "{wrong:?}");
        }
    }

    #[test]
    fn names_that_dns_can_change_are_not_loopback() {
        for name in ["localhost", "localhost:8090", "127.0.0.1:8090", "127.1.2.3", "[::1]:8090", "[::1]"] {
            assert!(is_loopback_name(name), "{name}");
        }
        for name in ["", "evil.example", "localhost.evil.example:8090", "127.0.0.1.nip.io", "10.0.0.1:80"] {
            assert!(!is_loopback_name(name), "{name}");
        }
    }
}

//! Who runs this command: a user on a host.

use menagerie_slots::identity;

/// This host's default name as a holder: the same for acquire and release.
pub fn this_host() -> String {
    let named = std::env::var("MENAGERIE_HOST").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(identity::host)
}

/// The user who typed the command, even under `sudo`.
pub fn user() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let uid = rustix::process::getuid().as_raw();
    named.filter(|name| !name.is_empty()).or_else(|| name_of(uid)).unwrap_or_else(|| format!("uid {uid}"))
}

/// A user's name, from /etc/passwd.
fn name_of(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// `user@host`, for logs and histories.
pub fn operator() -> String {
    format!("{}@{}", user(), identity::host())
}

/// `host-pid`: tells this process from all others of its kind.
pub fn this_process() -> String {
    format!("{}-{}", this_host(), std::process::id())
}

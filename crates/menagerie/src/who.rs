//! Who does something: this user, on this host.

use menagerie_slots::identity;

/// What this host is called when nobody is named: the same for whoever takes a slot and whoever gives it back.
pub fn this_host() -> String {
    let named = std::env::var("MENAGERIE_HOST").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(identity::host)
}

/// Who types this: whoever became root by `sudo` is still the one who did it.
pub fn user() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let uid = rustix::process::getuid().as_raw();
    named.filter(|name| !name.is_empty()).or_else(|| known(uid)).unwrap_or_else(|| format!("uid {uid}"))
}

/// The name of a user, as this machine knows it.
fn known(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// Who does this, for those who look.
pub fn operator() -> String {
    format!("{}@{}", user(), identity::host())
}

//! The user that tasks run as.

use std::ffi::OsString;

use menagerie_queues::runner::User;

use crate::exit::CliError;

/// Looks the user up in /etc/passwd.
pub fn named(name: &str) -> Result<User, CliError> {
    let users = std::fs::read_to_string("/etc/passwd").map_err(CliError::io("read /etc/passwd"))?;
    let found = users.lines().find_map(|line| entry(line, name));
    let user = found.ok_or_else(|| CliError::Usage {
        what: format!("there is no user {name} on this machine"),
        help: "name one of /etc/passwd with --user".to_owned(),
    })?;
    let me = rustix::process::geteuid();
    if !me.is_root() && me.as_raw() != user.id {
        return Err(CliError::Usage {
            what: format!("only root can run tasks as {name}"),
            help: "start the worker as root, or as that user without --user".to_owned(),
        });
    }
    Ok(user)
}

fn entry(line: &str, name: &str) -> Option<User> {
    let fields: Vec<&str> = line.split(':').collect();
    let [found, _, id, group, _, home, ..] = fields.as_slice() else { return None };
    if *found != name && *id != name {
        return None;
    }
    let (id, group) = (id.parse().ok()?, group.parse().ok()?);
    Some(User { name: (*found).to_owned(), id, group, home: OsString::from(home) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_or_number() {
        let line = "nobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin";
        let user = entry(line, "nobody").unwrap();
        assert_eq!((user.id, user.group, user.home.to_str()), (65_534, 65_533, Some("/nonexistent")));
        assert_eq!(entry(line, "65534"), Some(user));
        assert_eq!(entry(line, "root"), None);
        assert_eq!(entry("nobody:x", "nobody"), None);
    }
}

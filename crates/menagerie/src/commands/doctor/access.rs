//! Judges the namespace's access list: is it what the settings intend?

use menagerie_kernel::session::Access;

use super::finding::Findings;

/// How the server knows us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity<'a> {
    Anonymous,
    /// The user of `zookeeper.auth`.
    User(&'a str),
    /// By something that cannot be compared with an access list here, such as a certificate.
    Certified,
}

/// The facts to judge.
#[derive(Debug, Clone, Copy)]
pub struct AccessFacts<'a> {
    pub namespace: &'a str,
    /// `None` if the namespace does not exist yet.
    pub list: Option<&'a [Access]>,
    pub identity: Identity<'a>,
    /// Whether the servers listen on loopback only.
    pub loopback: bool,
}

pub fn judge(facts: AccessFacts<'_>, findings: &mut Findings) {
    let AccessFacts { namespace, identity, loopback, .. } = facts;
    let everybody = if loopback { "everybody on this machine" } else { "everybody who reaches the servers" };
    let Some(list) = facts.list else {
        return match identity {
            Identity::User(user) => {
                findings.ok("access", format!("znodes that we create will be for the user {user} alone"))
            }
            Identity::Anonymous | Identity::Certified => findings.warn(
                "access",
                format!("znodes that we create will be open to {everybody}"),
                "set zookeeper.auth in the configuration",
            ),
        };
    };
    let open = list.iter().any(Access::is_open);
    match (open, identity) {
        (true, Identity::User(user)) => findings.warn(
            "access",
            format!("{namespace} is open to {everybody}, although zookeeper.auth is set: it was created without"),
            format!(
                "close it for {user} with `menagerie zk acl set {namespace} auth::cdrwa`, and what is below it likewise"
            ),
        ),
        (true, Identity::Anonymous | Identity::Certified) => findings.warn(
            "access",
            format!("{namespace} is open to {everybody}: they may change and delete all of it"),
            "set zookeeper.auth, and close what exists with `menagerie zk acl set`; `menagerie up` without --open does so",
        ),
        (false, identity) => closed(namespace, list, identity, findings),
    }
}

/// The namespace is closed to strangers; check that we are not one ourselves.
fn closed(namespace: &str, list: &[Access], identity: Identity<'_>, findings: &mut Findings) {
    let users: Vec<&str> = list
        .iter()
        .filter(|access| access.scheme == "digest")
        .map(|access| access.id.split(':').next().unwrap_or_default())
        .collect();
    let readable = list.iter().any(|access| access.scheme == "world" && access.permissions.contains('r'));
    let strangers = if readable { "strangers may only read it" } else { "it is closed to strangers" };
    let only_users = list.iter().all(|access| matches!(access.scheme.as_str(), "digest" | "world"));
    let others = users.join(", ");
    match identity {
        Identity::User(user) if only_users && !users.contains(&user) => findings.fail(
            "access",
            format!("{namespace} belongs to {others}, and we are {user}"),
            "set zookeeper.auth to a user with access, or grant access to ours with `menagerie zk acl set`",
        ),
        Identity::Anonymous if only_users => findings.fail(
            "access",
            format!("{namespace} belongs to {others}, and no zookeeper.auth is set"),
            "set zookeeper.auth to a user who may",
        ),
        Identity::User(_) | Identity::Anonymous | Identity::Certified => {
            let shown: Vec<String> =
                list.iter().map(|access| format!("{}:…:{}", access.scheme, access.permissions)).collect();
            findings.ok("access", format!("{namespace}: {strangers} ({})", shown.join(" ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn whether_access_is_as_the_settings_want_is_judged_by_list_user_and_place() {
        let open = ["world:anyone:cdrwa"];
        let mine = ["digest:me:hash:cdrwa"];
        let read = ["digest:me:hash:cdrwa", "world:anyone:r"];
        let certified = ["x509:CN=me:cdrwa"];
        let (nobody, me, you) = (Identity::Anonymous, Identity::User("me"), Identity::User("you"));
        for (list, identity, loopback, health, words) in [
            (None, me, false, Health::Ok, "user me alone"),
            (None, nobody, true, Health::Warn, "will be open"),
            (None, nobody, false, Health::Warn, "will be open"),
            (Some(&open[..]), nobody, true, Health::Warn, "on this machine"),
            (Some(&open[..]), nobody, false, Health::Warn, "reaches the servers"),
            (Some(&open[..]), me, true, Health::Warn, "although zookeeper.auth is set"),
            (Some(&mine[..]), me, false, Health::Ok, "closed to strangers"),
            (Some(&read[..]), me, true, Health::Ok, "may only read"),
            (Some(&mine[..]), you, true, Health::Fail, "belongs to me, and we are you"),
            (Some(&mine[..]), nobody, true, Health::Fail, "no zookeeper.auth"),
            (Some(&certified[..]), Identity::Certified, false, Health::Ok, "closed to strangers"),
            (Some(&certified[..]), nobody, false, Health::Ok, "closed to strangers"),
        ] {
            let list: Option<Vec<Access>> =
                list.map(|list| list.iter().map(|line| line.parse().unwrap()).collect());
            let mut findings = Findings::default();
            judge(AccessFacts { namespace: "/m", list: list.as_deref(), identity, loopback }, &mut findings);
            assert_eq!(findings.count(health), 1, "{list:?} {identity:?}: {findings:?}");
            assert!(format!("{findings:?}").contains(words), "{words}: {findings:?}");
        }
    }
}

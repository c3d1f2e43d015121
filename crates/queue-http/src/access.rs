//! Who calls, and what they are allowed to do.

use menagerie_queues::{Origin, Via};
use menagerie_znodes::queues::{KeyId, Scope, Settings, Visibility};

/// The holder of a valid key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The application the key belongs to.
    pub application: String,
    /// The key's public id.
    pub key: KeyId,
    /// What the key allows.
    pub scopes: Vec<Scope>,
}

/// Who calls: the holders of all keys presented, each valid. Empty for anonymous callers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller(pub Vec<Holder>);

/// What a caller asks to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Create, change or delete queues.
    Manage,
    /// List queues.
    List,
    /// Post and replace messages.
    Post,
    /// Read messages.
    View,
    /// Delete messages.
    Delete,
    /// Receive messages and say what became of them.
    Handle,
}

impl Action {
    /// The scopes a key needs for this. Whoever handles messages reads them, and takes them from everybody else.
    fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Manage => &[Scope::Admin],
            Self::List | Self::View => &[Scope::Read],
            Self::Post | Self::Delete => &[Scope::Write],
            Self::Handle => &[Scope::Read, Scope::Write],
        }
    }
}

impl Caller {
    /// Whether the caller is allowed to do this to a queue of `application`; without settings, to the application
    /// itself.
    pub fn can(&self, action: Action, application: &str, queue: Option<&Settings>) -> bool {
        let public = queue.is_some_and(|queue| queue.visibility == Visibility::Public);
        let allowed = |holder: &Holder| {
            action.scopes().iter().all(|scope| holder.scopes.contains(scope))
                && is_entitled(&holder.application, action, application, queue)
        };
        (public && action == Action::View) || self.0.iter().any(allowed)
    }

    /// Whether the caller belongs to those who work with this queue, rather than being anybody who can read it because it
    /// is public.
    pub fn is_insider(&self, application: &str, queue: &Settings) -> bool {
        let entitled =
            |holder: &Holder| is_entitled(&holder.application, Action::View, application, Some(queue));
        self.is_of(application) || self.0.iter().any(entitled)
    }

    /// Who puts messages into queues of this application: the application and the public id of the key.
    pub fn origin(&self, application: &str) -> Origin {
        let own = self.0.iter().find(|holder| holder.application == application).or(self.0.first());
        let by = own.map_or_else(String::new, |holder| format!("{}/{}", holder.application, holder.key));
        Origin::new(&by, Via::Http)
    }

    /// Whether one of the keys belongs to this application.
    pub fn is_of(&self, application: &str) -> bool {
        self.0.iter().any(|holder| holder.application == application)
    }
}

/// A queue's principles decide who reads and deletes, instead of the owning application; they grant nothing else.
fn is_entitled(holder: &str, action: Action, application: &str, queue: Option<&Settings>) -> bool {
    let owns = holder == application;
    let Some(queue) = queue else { return owns };
    match action {
        Action::Manage | Action::List | Action::Post => owns,
        Action::View | Action::Delete | Action::Handle if queue.principles.is_empty() => owns,
        Action::View | Action::Delete | Action::Handle => {
            queue.principles.iter().any(|one| one.strip_prefix("app:") == Some(holder))
        }
    }
}

/// The keys in `Authorization: Application <key>` or `Bearer <key>`. Several parts are separated by `;`; unknown schemes
/// are ignored.
pub fn keys(authorization: &str) -> Vec<&str> {
    authorization.split(';').filter_map(key).collect()
}

fn key(part: &str) -> Option<&str> {
    let (scheme, key) = part.trim().split_once(char::is_whitespace)?;
    let is_known = ["application", "bearer"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_known.then(|| key.trim()).filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_znodes::queues::Consistency;

    const ALL: [Action; 6] =
        [Action::Manage, Action::List, Action::Post, Action::View, Action::Delete, Action::Handle];

    fn settings(visibility: Visibility, principles: &[&str]) -> Settings {
        Settings {
            partitions: 1,
            journal: "j".into(),
            folder: None,
            visibility,
            consistency: Consistency::default(),
            principles: principles.iter().map(|&one| one.to_owned()).collect(),
            keep: menagerie_znodes::queues::Keep::default(),
            handling: menagerie_znodes::queues::Handling::default(),
            created_ms: 0,
        }
    }

    fn holder(name: &str, scopes: &[Scope]) -> Caller {
        let key = "0123456789ab".parse().unwrap();
        Caller(vec![Holder { application: name.into(), key, scopes: scopes.to_vec() }])
    }

    fn app(name: &str) -> Caller {
        holder(name, &Scope::ALL)
    }

    fn granted(caller: &Caller, queue: &Settings) -> Vec<Action> {
        ALL.into_iter().filter(|action| caller.can(*action, "notes", Some(queue))).collect()
    }

    #[test]
    fn schemes_match_in_any_case() {
        assert_eq!(keys("Application actionapp"), ["actionapp"]);
        assert_eq!(keys("BrowserID xyz; Application  k1 ;Application k2"), ["k1", "k2"]);
        assert_eq!(keys("Bearer k1; bearer k2"), ["k1", "k2"]);
        assert!(keys("Basic abc").is_empty() && keys("").is_empty() && keys("Application ").is_empty());
    }

    #[test]
    fn an_application_owns_its_queues() {
        let queue = settings(Visibility::User, &[]);
        assert_eq!(granted(&app("notes"), &queue), ALL);
        assert_eq!(granted(&app("other"), &queue), []);
        assert_eq!(granted(&Caller::default(), &queue), []);
        let both = Caller([app("other").0, app("notes").0].concat());
        assert_eq!(granted(&both, &queue), ALL);
        assert!(app("notes").can(Action::Manage, "notes", None));
        assert!(!app("other").can(Action::List, "notes", None));
    }

    #[test]
    fn principles_replace_the_application_for_reading_and_grant_no_more() {
        let queue = settings(Visibility::User, &["app:other", "bid:a@x.org"]);
        assert_eq!(granted(&app("notes"), &queue), [Action::Manage, Action::List, Action::Post]);
        assert_eq!(granted(&app("other"), &queue), [Action::View, Action::Delete, Action::Handle]);
    }

    #[test]
    fn anybody_can_view_a_public_queue_and_no_more() {
        let queue = settings(Visibility::Public, &[]);
        assert_eq!(granted(&Caller::default(), &queue), [Action::View]);
        assert_eq!(granted(&app("other"), &queue), [Action::View]);
    }

    #[test]
    fn insiders_are_the_application_and_the_principles() {
        let public = settings(Visibility::Public, &[]);
        let shared = settings(Visibility::Public, &["app:other"]);
        for (caller, of_public, of_shared) in [
            (Caller::default(), false, false),
            (app("notes"), true, true),
            (holder("notes", &[Scope::Write]), true, true),
            (app("other"), false, true),
            (app("third"), false, false),
        ] {
            let is_insider = |queue| caller.is_insider("notes", queue);
            assert_eq!((is_insider(&public), is_insider(&shared)), (of_public, of_shared), "{caller:?}");
        }
    }

    #[test]
    fn a_key_allows_its_scopes_only() {
        let queue = settings(Visibility::User, &[]);
        assert_eq!(granted(&holder("notes", &[Scope::Read]), &queue), [Action::List, Action::View]);
        assert_eq!(granted(&holder("notes", &[Scope::Write]), &queue), [Action::Post, Action::Delete]);
        assert_eq!(granted(&holder("notes", &[Scope::Admin]), &queue), [Action::Manage]);
        let both = holder("notes", &[Scope::Read, Scope::Write]);
        assert_eq!(granted(&both, &queue), ALL[1..], "whoever reads and writes can handle messages");
        assert_eq!(granted(&holder("notes", &[]), &queue), []);
    }
}

//! Who asks, and whether they may.

use menagerie_znodes::queues::{KeyId, Scope, Settings, Visibility};

/// Somebody who has shown a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The application whose key it is.
    pub application: String,
    /// Which key.
    pub key: KeyId,
    /// What it is good for.
    pub scopes: Vec<Scope>,
}

/// Who asks: the keys that were shown, all of which are known. Without any it is anybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller(pub Vec<Holder>);

/// What they want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Make, change or delete queues.
    Manage,
    /// List queues.
    List,
    /// Post and replace messages.
    Post,
    /// Read messages.
    View,
    /// Delete messages.
    Delete,
}

impl Wish {
    /// What a key must be good for.
    fn scope(self) -> Scope {
        match self {
            Self::Manage => Scope::Admin,
            Self::List | Self::View => Scope::Read,
            Self::Post | Self::Delete => Scope::Write,
        }
    }
}

impl Caller {
    /// Whether they may do this to a queue of `application`; without settings, to the application itself.
    pub fn may(&self, wish: Wish, application: &str, queue: Option<&Settings>) -> bool {
        let public = queue.is_some_and(|queue| queue.visibility == Visibility::Public);
        let allowed = |holder: &Holder| {
            holder.scopes.contains(&wish.scope()) && is_meant(&holder.application, wish, application, queue)
        };
        (public && wish == Wish::View) || self.0.iter().any(allowed)
    }

    /// Whether one of the keys is of this application.
    pub fn is_of(&self, application: &str) -> bool {
        self.0.iter().any(|holder| holder.application == application)
    }
}

/// Principles take reading and deleting from the application itself, and give nothing else to others.
fn is_meant(holder: &str, wish: Wish, application: &str, queue: Option<&Settings>) -> bool {
    let owns = holder == application;
    let Some(queue) = queue else { return owns };
    match wish {
        Wish::Manage | Wish::List | Wish::Post => owns,
        Wish::View | Wish::Delete if queue.principles.is_empty() => owns,
        Wish::View | Wish::Delete => {
            queue.principles.iter().any(|one| one.strip_prefix("app:") == Some(holder))
        }
    }
}

/// The keys in `Authorization: Application <key>`. Several parts are separated by `;`, and schemes that we do not know
/// are passed over.
pub fn keys(authorization: &str) -> Vec<&str> {
    authorization.split(';').filter_map(key).collect()
}

fn key(part: &str) -> Option<&str> {
    let (scheme, key) = part.trim().split_once(char::is_whitespace)?;
    scheme.eq_ignore_ascii_case("application").then(|| key.trim()).filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_znodes::queues::Consistency;

    const ALL: [Wish; 5] = [Wish::Manage, Wish::List, Wish::Post, Wish::View, Wish::Delete];

    fn settings(visibility: Visibility, principles: &[&str]) -> Settings {
        Settings {
            partitions: 1,
            journal: "j".into(),
            folder: None,
            visibility,
            consistency: Consistency::default(),
            principles: principles.iter().map(|&one| one.to_owned()).collect(),
            keep: menagerie_znodes::queues::Keep::default(),
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

    fn granted(caller: &Caller, queue: &Settings) -> Vec<Wish> {
        ALL.into_iter().filter(|wish| caller.may(*wish, "notes", Some(queue))).collect()
    }

    #[test]
    fn keys_of_any_letters_are_found() {
        assert_eq!(keys("Application actionapp"), ["actionapp"]);
        assert_eq!(keys("BrowserID xyz; Application  k1 ;Application k2"), ["k1", "k2"]);
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
        assert!(app("notes").may(Wish::Manage, "notes", None));
        assert!(!app("other").may(Wish::List, "notes", None));
    }

    #[test]
    fn principles_take_reading_from_the_application_and_give_no_more() {
        let queue = settings(Visibility::User, &["app:other", "bid:a@x.org"]);
        assert_eq!(granted(&app("notes"), &queue), [Wish::Manage, Wish::List, Wish::Post]);
        assert_eq!(granted(&app("other"), &queue), [Wish::View, Wish::Delete]);
    }

    #[test]
    fn anybody_may_view_what_is_public_and_no_more() {
        let queue = settings(Visibility::Public, &[]);
        assert_eq!(granted(&Caller::default(), &queue), [Wish::View]);
        assert_eq!(granted(&app("other"), &queue), [Wish::View]);
    }

    #[test]
    fn a_key_is_good_for_its_scopes_only() {
        let queue = settings(Visibility::User, &[]);
        assert_eq!(granted(&holder("notes", &[Scope::Read]), &queue), [Wish::List, Wish::View]);
        assert_eq!(granted(&holder("notes", &[Scope::Write]), &queue), [Wish::Post, Wish::Delete]);
        assert_eq!(granted(&holder("notes", &[Scope::Admin]), &queue), [Wish::Manage]);
        assert_eq!(granted(&holder("notes", &[]), &queue), []);
    }
}

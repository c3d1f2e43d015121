//! What a path means.

use percent_encoding::percent_decode_str;

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Whether somebody is there.
    Heartbeat,
    /// What can be asked.
    OpenApi,
    /// The queues of an application.
    Application {
        /// Its name.
        application: String,
    },
    /// A queue and its messages.
    Queue {
        /// Whose it is.
        application: String,
        /// Its name.
        queue: String,
        /// Whether a slash follows: something may have been meant to stand behind it.
        slash: bool,
    },
    /// Some messages of a queue.
    Messages {
        /// Whose it is.
        application: String,
        /// The queue's name.
        queue: String,
        /// Which ones, as they were written.
        ids: String,
    },
}

impl Route {
    /// Whose queues it is about.
    pub fn application(&self) -> Option<&str> {
        match self {
            Self::Heartbeat | Self::OpenApi => None,
            Self::Application { application }
            | Self::Queue { application, .. }
            | Self::Messages { application, .. } => Some(application),
        }
    }
}

/// The route of a path as it came, without the query; nothing if it is none of ours. One slash at the end is passed over.
pub fn route(path: &str) -> Option<Route> {
    let path = path.strip_prefix('/')?;
    let slash = path.ends_with('/');
    let path = path.strip_suffix('/').unwrap_or(path);
    let parts: Vec<String> = path.split('/').map(decoded).collect::<Option<_>>()?;
    match parts.as_slice() {
        [heartbeat] if heartbeat == "__heartbeat__" => Some(Route::Heartbeat),
        [openapi] if openapi == "openapi.json" => Some(Route::OpenApi),
        [v1, rest @ ..] if v1 == "v1" => below_version(rest, slash),
        _ => None,
    }
}

fn below_version(parts: &[String], slash: bool) -> Option<Route> {
    if parts.iter().any(String::is_empty) {
        return None;
    }
    match parts {
        [application] => Some(Route::Application { application: application.clone() }),
        [application, queue] => {
            Some(Route::Queue { application: application.clone(), queue: queue.clone(), slash })
        }
        [application, queue, ids] => {
            Some(Route::Messages { application: application.clone(), queue: queue.clone(), ids: ids.clone() })
        }
        _ => None,
    }
}

/// A `%2F` in a part is a character of that part, and does not divide it.
fn decoded(part: &str) -> Option<String> {
    percent_decode_str(part).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        let queue = |slash| Route::Queue { application: "app".into(), queue: "mail".into(), slash };
        for (path, meaning) in [
            ("/__heartbeat__", Some(Route::Heartbeat)),
            ("/__heartbeat__/", Some(Route::Heartbeat)),
            ("/v1/app", Some(Route::Application { application: "app".into() })),
            ("/v1/app/mail", Some(queue(false))),
            ("/v1/app/mail/", Some(queue(true))),
            ("/v1/app/m%61il", Some(queue(false))),
            (
                "/v1/app/mail/2%3Aab",
                Some(Route::Messages { application: "app".into(), queue: "mail".into(), ids: "2:ab".into() }),
            ),
            (
                "/v1/app/a%2Fb",
                Some(Route::Queue { application: "app".into(), queue: "a/b".into(), slash: false }),
            ),
            ("/v1/app/mail//", None),
            ("/v1//mail", None),
            ("/v1", None),
            ("/v1/", None),
            ("/v2/app", None),
            ("/", None),
            ("/v1/app/%ff", None),
            ("/v1/a/b/c/d", None),
        ] {
            assert_eq!(route(path), meaning, "{path}");
        }
    }
}

//! Maps paths to routes.

use percent_encoding::percent_decode_str;

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "application and queue are names in the path")]
pub enum Route {
    /// `/__heartbeat__`
    Heartbeat,
    /// `/openapi.json`
    OpenApi,
    /// `/v1/{application}`: its queues.
    Application { application: String },
    /// `/v1/{application}/{queue}`: a queue and its messages.
    Queue {
        application: String,
        queue: String,
        /// Whether the path ends with a slash: the client may have meant to put an id there.
        slash: bool,
    },
    /// `/v1/{application}/{queue}/{ids}`: some messages of a queue.
    Messages {
        application: String,
        queue: String,
        /// The list of ids, not parsed yet.
        ids: String,
    },
}

impl Route {
    /// The application named in the path.
    pub fn application(&self) -> Option<&str> {
        match self {
            Self::Heartbeat | Self::OpenApi => None,
            Self::Application { application }
            | Self::Queue { application, .. }
            | Self::Messages { application, .. } => Some(application),
        }
    }
}

/// The route of a raw path without its query; `None` if there is no such route. Ignores one trailing slash.
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

/// Decodes after splitting, so a `%2F` belongs to its segment.
fn decoded(part: &str) -> Option<String> {
    percent_decode_str(part).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_map_to_routes() {
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

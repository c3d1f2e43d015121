//! Maps paths to routes.

use percent_encoding::percent_decode_str;

use crate::receive::form::AnswerKind;

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
    /// `/v1/{application}/{queue}/messages/{id}`: one message, and what has become of it.
    Message { application: String, queue: String, id: String },
    /// `/v1/{application}/{queue}/receive`, `…/ack`, `…/nack`, `…/extend`: handling messages.
    Handling { application: String, queue: String, verb: Verb },
}

/// What a client that handles messages wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Messages.
    Receive,
    /// To say what became of them.
    Answer(AnswerKind),
}

impl Verb {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "receive" => Some(Self::Receive),
            "ack" => Some(Self::Answer(AnswerKind::Ack)),
            "nack" => Some(Self::Answer(AnswerKind::Nack)),
            "extend" => Some(Self::Answer(AnswerKind::Extend)),
            _ => None,
        }
    }
}

impl Route {
    /// The application named in the path.
    pub fn application(&self) -> Option<&str> {
        match self {
            Self::Heartbeat | Self::OpenApi => None,
            Self::Application { application }
            | Self::Queue { application, .. }
            | Self::Messages { application, .. }
            | Self::Message { application, .. }
            | Self::Handling { application, .. } => Some(application),
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
        [application, queue, word] => {
            let (application, queue) = (application.clone(), queue.clone());
            Some(match Verb::parse(word) {
                Some(verb) => Route::Handling { application, queue, verb },
                None => Route::Messages { application, queue, ids: word.clone() },
            })
        }
        [application, queue, messages, id] if messages == "messages" => {
            Some(Route::Message { application: application.clone(), queue: queue.clone(), id: id.clone() })
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
        let messages =
            |ids: &str| Route::Messages { application: "app".into(), queue: "mail".into(), ids: ids.into() };
        for (path, meaning) in [
            ("/__heartbeat__", Some(Route::Heartbeat)),
            ("/__heartbeat__/", Some(Route::Heartbeat)),
            ("/v1/app", Some(Route::Application { application: "app".into() })),
            ("/v1/app/mail", Some(queue(false))),
            ("/v1/app/mail/", Some(queue(true))),
            ("/v1/app/m%61il", Some(queue(false))),
            ("/v1/app/mail/2%3Aab", Some(messages("2:ab"))),
            (
                "/v1/app/a%2Fb",
                Some(Route::Queue { application: "app".into(), queue: "a/b".into(), slash: false }),
            ),
            (
                "/v1/app/mail/receive",
                Some(Route::Handling {
                    application: "app".into(),
                    queue: "mail".into(),
                    verb: Verb::Receive,
                }),
            ),
            (
                "/v1/app/mail/messages/2:ab",
                Some(Route::Message { application: "app".into(), queue: "mail".into(), id: "2:ab".into() }),
            ),
            ("/v1/app/mail/messages", Some(messages("messages"))),
            ("/v1/app/mail/Ack", Some(messages("Ack"))),
            ("/v1/app/mail/news/ab", None),
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

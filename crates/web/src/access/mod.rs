//! Who may: tokens, cookies, the user of this machine, and what they are allowed to do.
//!
//! - [`token`]: tokens, drawn, hashed and stored. [`tokens`]: all of them, kept current. [`local`]: whose process is at
//!   the other end of a loopback connection. [`same_origin`]: requests that another site's page has caused. [`throttle`]:
//!   limits for those who guess.
//! - this file: who calls, and whether they may.

pub mod local;
pub mod same_origin;
pub mod throttle;
pub mod token;
pub mod tokens;

use std::net::SocketAddr;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE, HOST};
use menagerie_kernel::CallError;
use menagerie_types::Name;
use menagerie_znodes::web::{Area, Rights, Scope};

use self::throttle::Throttle;
use self::token::Hash;
use self::tokens::Tokens;
use crate::audit::Actor;
use crate::problem::Problem;

/// The name of the cookie of a page that has logged in; its value is the token itself. Cookies are the same for all ports of
/// a host, so installations beside each other must not overwrite each other's.
pub fn cookie_name(port: u16) -> String {
    format!("menagerie-{port}")
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Whoever has this token.
    Token {
        /// Its name.
        name: Name,
        /// Its id.
        id: Name,
        /// What it allows.
        rights: Rights,
        /// A browser sends it by itself, also for pages of other sites.
        is_cookie: bool,
    },
    /// A process of our own user on this machine, without a token: it may read.
    LocalUser,
    /// Anybody else.
    Nobody,
}

impl Caller {
    /// What it may do.
    pub fn rights(&self) -> Rights {
        match self {
            Self::Token { rights, .. } => *rights,
            Self::LocalUser => Rights::everywhere(Scope::Read),
            Self::Nobody => Rights::default(),
        }
    }

    /// For the audit trail; only callers with a token change anything.
    pub fn actor(&self, peer: SocketAddr) -> Option<Actor> {
        match self {
            Self::Token { name, id, .. } => {
                Some(Actor { who: name.clone(), token: id.clone(), from: peer.ip().to_canonical() })
            }
            Self::LocalUser | Self::Nobody => None,
        }
    }

    /// Refuses those who may not.
    pub fn require(&self, area: Area, scope: Scope) -> Result<(), Problem> {
        if self.rights().allows(area, scope) {
            return Ok(());
        }
        let what = match area {
            Area::Installation => scope.word().to_owned(),
            engine => format!("{}:{}", engine.word(), scope.word()),
        };
        let create = format!("`menagerie token create NAME --scope {what}` makes one");
        Err(match self {
            Self::Token { name, rights, .. } => {
                Problem::new(403, format!("token {name} has the scopes {rights}; this takes {what}"), create)
            }
            Self::LocalUser | Self::Nobody => Problem::new(
                401,
                format!("this takes a token with the scope {what}"),
                format!("send it as `Authorization: Bearer TOKEN`, or log in at /login; {create}"),
            ),
        })
    }
}

/// Recognises callers.
#[derive(Debug)]
pub struct Door {
    /// All tokens.
    pub tokens: Tokens,
    /// Those who guess.
    pub throttle: Throttle,
    /// Where we listen.
    pub address: SocketAddr,
}

impl Door {
    /// Who sends this request. A token that is not valid is an error, not nobody.
    pub async fn caller(&self, headers: &HeaderMap, peer: SocketAddr) -> Result<Caller, Problem> {
        if let Some(text) = bearer(headers)? {
            return self.holder(&text, peer, false).await;
        }
        if let Some(text) = cookie(headers, &cookie_name(self.address.port())) {
            match self.holder(&text, peer, true).await {
                // It was revoked, or is of another installation on this address: as if there were none. A browser goes on
                // to send it, until too many wrong ones have come from there.
                Err(problem) if matches!(problem.status, 401 | 429) => {}
                caller => return caller,
            }
        }
        Ok(match self.is_local_user(headers, peer) {
            true => Caller::LocalUser,
            false => Caller::Nobody,
        })
    }

    /// Who has this token.
    pub async fn holder(&self, token: &str, peer: SocketAddr, is_cookie: bool) -> Result<Caller, Problem> {
        let hash = Hash::of(token);
        if let Some(found) = self.tokens.cached(&hash) {
            return Ok(found.caller(is_cookie));
        }
        // It may have been created a moment ago: ask ZooKeeper, but not for everybody who guesses.
        self.throttle.check(peer.ip())?;
        match self.tokens.look_up(&hash).await.map_err(unavailable)? {
            Some(found) => Ok(found.caller(is_cookie)),
            None => {
                self.throttle.failed(peer.ip());
                let help =
                    "`menagerie token list` shows the valid ones; `menagerie token create` makes another";
                Err(Problem::new(401, "this token is not valid: it was revoked, or never was", help))
            }
        }
    }

    /// Whether a process of our own user on this machine asks, and the name in its request cannot be one that
    /// another site's DNS has pointed at us.
    fn is_local_user(&self, headers: &HeaderMap, peer: SocketAddr) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        // A proxy on this machine passes on what others ask.
        let is_proxied = ["forwarded", "x-forwarded-for", "x-real-ip", "via"]
            .iter()
            .any(|name| headers.contains_key(*name));
        peer.ip().is_loopback()
            && !is_proxied
            && same_origin::is_loopback_name(host)
            && local::is_own_user(peer, self.address)
    }
}

fn unavailable(error: CallError) -> Problem {
    let why = menagerie_kernel::whole(&error).to_string();
    Problem::busy(503, format!("ZooKeeper cannot say now whether this token is valid: {why}"), 5)
}

fn bearer(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    });
    match token {
        Some(token) => Ok(Some(token)),
        None => Err(Problem::new(
            401,
            "the header Authorization is not `Bearer TOKEN`",
            "correct or leave it out",
        )),
    }
}

/// The value of a cookie.
pub fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|text| text.split(';')).find_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name && !value.is_empty()).then(|| value.to_owned())
    })
}

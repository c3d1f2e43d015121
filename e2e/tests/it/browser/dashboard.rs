//! Dashboards to look at.

use std::net::SocketAddr;

use menagerie_testkit::Daemon;

use super::chrome::Browser;
use crate::cli::User;
use crate::up;

/// A dashboard, and who may act on it.
pub struct Dashboard {
    pub address: SocketAddr,
    pub token: String,
}

impl Dashboard {
    /// A browser that has logged in.
    pub fn browser(&self) -> Browser {
        let browser = self.stranger();
        browser.goto(&format!("/login?token={}", self.token));
        assert_eq!(browser.path(), "/", "logging in leads to the overview");
        browser
    }

    /// A browser that has not.
    pub fn stranger(&self) -> Browser {
        Browser::open(self.address)
    }

    /// The header line of somebody who has logged in.
    pub fn cookie(&self) -> String {
        format!("Cookie: menagerie-{}={}\r\n", self.address.port(), self.token)
    }
}

/// That of the demo which all tests share that only look.
pub fn demo() -> Dashboard {
    let demo = up::demo();
    Dashboard { address: demo.web, token: demo.token.clone() }
}

/// `menagerie web` for a user, and a token that may do everything. The test may kill it and start it again.
pub fn serve(user: &User) -> (Daemon, Dashboard) {
    let web = user.serve(&["web", "--log-level", "warn"]);
    let token = user.ok(&["token", "create", "tester", "--scope", "read,submit,operate"]).trim().to_owned();
    let address = web.address();
    (web, Dashboard { address, token })
}

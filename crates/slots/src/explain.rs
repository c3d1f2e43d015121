//! What users may do about errors of slots.

use std::borrow::Cow;

use menagerie_types::{Explain, exit_code};

use crate::error::SlotsError;

impl Explain for SlotsError {
    fn help(&self) -> Cow<'static, str> {
        match self {
        Self::NoPool { pool } => {
            format!(
                "`menagerie slots list` shows those that there are; `menagerie slots create {pool} --max N` makes it"
            )
        }
        Self::OtherMaximum { pool, wanted, .. } => {
            format!("to change it on purpose: `menagerie slots set-max {pool} {wanted}`")
        }
        Self::NoRoomAtAll => "to let nobody in: `menagerie slots freeze`".to_owned(),
        Self::Conflict { pool } | Self::NotAsExpected { pool, .. } => {
            format!("look at it with `menagerie slots show {pool}`, and decide again")
        }
        Self::InUse { pool, .. } => format!("see who they are with `menagerie slots show {pool}`"),
        Self::NotHeld { pool, .. } => format!("`menagerie slots show {pool}` shows who holds"),
        Self::Running { pool, holder, .. } => format!(
            "let it end, or, if you know that it is gone, `menagerie slots release {pool} {holder} --force`"
        ),
        Self::Lost { pool, .. } => format!("`menagerie slots history {pool}` tells who took it"),
        Self::Damaged { path, .. } => format!(
            "nobody gets in while it is so; see what is there with `menagerie zk get`, and write it anew: `menagerie zk set` \
             {path} (in the namespace) '{{\"max\":N,\"count\":0}}'"
        ),
        Self::Missing { pool, .. } if self.is_of_watchdogs() => format!(
            "look which hosts are out of service; `menagerie slots rearm {pool} HOST` for one that is not begins the list anew, \
             and then nobody is on it"
        ),
        Self::Missing { .. } => {
            "the next change of the pool makes it again; `menagerie doctor` looks for more that is missing".to_owned()
        }
        Self::TicketGone { pool, holder, .. } => format!(
            "if {holder} does not need it any more, `menagerie slots release {pool} {holder} --force` frees it"
        ),
        Self::Stuck { .. } => {
            "look at what was refused with `menagerie zk stat` (paths are below the namespace); `menagerie doctor` looks for \
             more that is damaged"
                .to_owned()
        }
        Self::Call(error) => error.help().into_owned(),
    }
        .into()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::NoPool { .. } | Self::NoRoomAtAll => exit_code::USAGE,
            Self::Lost { .. } => exit_code::LOST,
            Self::Call(error) => error.exit_code(),
            Self::OtherMaximum { .. }
            | Self::Conflict { .. }
            | Self::NotAsExpected { .. }
            | Self::InUse { .. }
            | Self::NotHeld { .. }
            | Self::Running { .. }
            | Self::Damaged { .. }
            | Self::Missing { .. }
            | Self::TicketGone { .. }
            | Self::Stuck { .. } => exit_code::FAILED,
        }
    }
}

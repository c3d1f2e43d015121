//! Operation codes and error codes.

use std::fmt;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
#[expect(missing_docs, reason = "each is named after the operation it stands for")]
pub enum OpCode {
    Create = 1,
    Delete = 2,
    Exists = 3,
    GetData = 4,
    SetData = 5,
    GetAcl = 6,
    SetAcl = 7,
    GetChildren = 8,
    Sync = 9,
    Ping = 11,
    GetChildren2 = 12,
    Check = 13,
    Multi = 14,
    Create2 = 15,
    Reconfig = 16,
    CheckWatches = 17,
    RemoveWatches = 18,
    CreateContainer = 19,
    DeleteContainer = 20,
    CreateTtl = 21,
    MultiRead = 22,
    Auth = 100,
    SetWatches = 101,
    Sasl = 102,
    GetEphemerals = 103,
    GetAllChildrenNumber = 104,
    SetWatches2 = 105,
    AddWatch = 106,
    WhoAmI = 107,
    CreateSession = -10,
    CloseSession = -11,
}

impl OpCode {
    /// Every operation, in the order of its code.
    pub const ALL: [Self; 31] = [
        Self::Create,
        Self::Delete,
        Self::Exists,
        Self::GetData,
        Self::SetData,
        Self::GetAcl,
        Self::SetAcl,
        Self::GetChildren,
        Self::Sync,
        Self::Ping,
        Self::GetChildren2,
        Self::Check,
        Self::Multi,
        Self::Create2,
        Self::Reconfig,
        Self::CheckWatches,
        Self::RemoveWatches,
        Self::CreateContainer,
        Self::DeleteContainer,
        Self::CreateTtl,
        Self::MultiRead,
        Self::Auth,
        Self::SetWatches,
        Self::Sasl,
        Self::GetEphemerals,
        Self::GetAllChildrenNumber,
        Self::SetWatches2,
        Self::AddWatch,
        Self::WhoAmI,
        Self::CreateSession,
        Self::CloseSession,
    ];

    /// The operation with this code, if there is one.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|op| *op as i32 == code)
    }

    /// The code on the wire.
    pub fn code(self) -> i32 {
        self as i32
    }
}

/// Why the server refused a request. A number rather than an enum: servers of other versions send codes that we do not know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(pub i32);

macro_rules! error_codes {
    ($($name:ident = $code:literal, $doc:literal;)*) => {
        #[expect(non_upper_case_globals, reason = "they read as the variants that they are")]
        impl ErrorCode {
            $(#[doc = $doc] pub const $name: Self = Self($code);)*

            /// The name that ZooKeeper's documentation uses, if the code is known.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    Ok = 0, "All is well.";
    RuntimeInconsistency = -2, "An operation behind the one that failed in a multi.";
    Marshalling = -5, "The request could not be decoded.";
    Unimplemented = -6, "The server does not know this operation.";
    BadArguments = -8, "The arguments make no sense.";
    NoNode = -101, "The znode does not exist.";
    NoAuth = -102, "The caller's identities do not permit this.";
    BadVersion = -103, "The znode has another version.";
    NoChildrenForEphemerals = -108, "Ephemeral znodes have no children.";
    NodeExists = -110, "The znode exists already.";
    NotEmpty = -111, "The znode has children.";
    SessionExpired = -112, "The session is gone.";
    InvalidAcl = -114, "The access list is not valid.";
    AuthFailed = -115, "The credentials were refused.";
    SessionMoved = -118, "The session lives on another connection.";
    NoWatcher = -121, "There is no such watch.";
    ReconfigDisabled = -123, "This ensemble cannot be reconfigured.";
    QuotaExceeded = -125, "The write would exceed a quota that is enforced.";
    ThrottledOp = -127, "The server shed this operation.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

//! Keys that have no character, as WebDriver encodes them.

pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";
pub const SPACE: &str = " ";

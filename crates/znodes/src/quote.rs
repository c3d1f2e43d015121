//! How any text becomes one component of a path.

use std::fmt::{self, Write as _};

use crate::Name;

/// A value for a placeholder in a pattern. It never writes a `/`.
pub trait Component {
    /// Appends itself.
    fn write(&self, path: &mut String);
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Component for $type {
            fn write(&self, path: &mut String) {
                // Writing to a string cannot fail.
                let _ = write!(path, "{self}");
            }
        }
    )*};
}
number!(u16, u32, u64, i64);

/// Readable text, with every byte that a path cannot carry written as `%XX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted<'a>(pub &'a str);

impl Component for Quoted<'_> {
    fn write(&self, path: &mut String) {
        let _ = write!(path, "{self}");
    }
}

impl Component for Name {
    fn write(&self, path: &mut String) {
        Quoted(self.as_str()).write(path);
    }
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `.` and `..` are no names in ZooKeeper; any longer run of dots is.
        let dots = matches!(self.0, "." | "..");
        for c in self.0.chars() {
            if c == '%' || c == '/' || c.is_control() || !c.is_ascii() || (dots && c == '.') {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    write!(f, "%{byte:02X}")?;
                }
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// The unquoted text; `None` if nothing quotes to this.
pub fn unquote(component: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(component.len());
    let mut rest = component.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    (Quoted(&text).to_string() == component).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slashes_and_dots_never_leak() {
        assert_eq!(Quoted("../x").to_string(), "..%2Fx");
        assert_eq!(Quoted("..").to_string(), "%2E%2E");
        assert_eq!(Quoted("naïve").to_string(), "na%C3%AFve");
    }

    proptest! {
        #[test]
        fn quoting_loses_nothing_and_makes_one_component(text in ".*") {
            let quoted = Quoted(&text).to_string();
            prop_assert!(!quoted.contains('/') && quoted != "." && quoted != "..");
            prop_assert!(quoted.chars().all(|c| c.is_ascii() && !c.is_control()));
            prop_assert_eq!(unquote(&quoted), Some(text));
        }
    }
}

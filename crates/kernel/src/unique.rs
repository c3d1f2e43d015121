//! Unique names.

use std::fmt::Write as _;

/// A UUID of version 4 as 32 digits, as kazoo writes it.
pub fn hex() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_look_like_those_of_kazoo_and_differ() {
        let (one, other) = (hex(), hex());
        assert!(one != other && one.len() == 32 && one.as_bytes()[12] == b'4');
    }
}

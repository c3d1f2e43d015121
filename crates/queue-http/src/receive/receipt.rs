//! Receipts: what a client shows to say what became of a message it received.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use menagerie_journal::{MessageId, Ticks};
use menagerie_kernel::Fence;

/// Bytes of a receipt before they become text.
const BYTES: usize = 42;

/// Names one delivery of one message: by this server, under this fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The server that delivered it, drawn at random when it started.
    pub server: u64,
    /// Number of the message's partition.
    pub partition: u16,
    /// Fence of the partition's owner at that time.
    pub fence: Fence,
    /// Position of the message.
    pub message: MessageId,
    /// Random, so that no delivery is taken for another.
    pub nonce: u64,
}

impl Receipt {
    /// As text, which means nothing to clients.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend(self.server.to_be_bytes());
        bytes.extend(self.partition.to_be_bytes());
        bytes.extend(self.fence.generation.to_be_bytes());
        bytes.extend(self.fence.zxid.to_be_bytes());
        bytes.extend(self.message.0.0.to_be_bytes());
        bytes.extend(self.nonce.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// `None` if the text is no receipt.
    pub fn decode(text: &str) -> Option<Self> {
        let bytes: [u8; BYTES] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let number = |from: usize| bytes[from..from + 8].try_into().map(u64::from_be_bytes).ok();
        Some(Self {
            server: number(0)?,
            partition: u16::from_be_bytes([bytes[8], bytes[9]]),
            fence: Fence::new(number(10)?, number(18)?.cast_signed()),
            message: MessageId(Ticks(number(26)?)),
            nonce: number(34)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_survives_being_text_and_anything_else_is_none() {
        let message = MessageId(Ticks(0x1eb_1234_5678_9abc));
        let receipt =
            Receipt { server: u64::MAX, partition: 200, fence: Fence::new(7, -1), message, nonce: 3 };
        let text = receipt.encode();
        assert_eq!(Receipt::decode(&text), Some(receipt));
        for wrong in
            ["", "x", &text[1..], &format!("{text}A"), &text.replace(text.chars().last().unwrap(), "*")]
        {
            assert_eq!(Receipt::decode(wrong), None, "{wrong}");
        }
    }
}

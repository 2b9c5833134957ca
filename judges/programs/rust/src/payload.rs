use sha2::{Digest, Sha256};

/// The body of message number `index`: "PREFIX-index|", then filler byte j = 1 + (index + j) % 255 up to `size`.
pub fn body(prefix: &str, index: usize, size: usize) -> Vec<u8> {
    let mut text = format!("{prefix}-{index}|").into_bytes();
    let mut j = 0;
    while text.len() < size {
        text.push((1 + (index + j) % 255) as u8);
        j += 1;
    }
    text
}

pub fn digest(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

//! Tokens in the addresses of webhooks. The provider signs nothing, so the address itself has to
//! prove that it was us who gave it out, and for which task.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The token for the webhook of one task of one generation: 64 hexadecimal digits.
pub fn webhook_token(secret: &[u8], generation: &str, task: &str) -> String {
    let Some(mac) = mac(secret, generation, task) else { return String::new() };
    HEXLOWER.encode(&mac.finalize().into_bytes())
}

/// Whether a token is the one for this task. It takes as long for a wrong one as for the right one.
pub fn verify_webhook_token(secret: &[u8], generation: &str, task: &str, token: &str) -> bool {
    let Ok(given) = HEXLOWER_PERMISSIVE.decode(token.as_bytes()) else { return false };
    mac(secret, generation, task).is_some_and(|it| it.verify_slice(&given).is_ok())
}

/// `None` never comes: an HMAC takes a secret of any length.
fn mac(secret: &[u8], generation: &str, task: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    // With their lengths, so that no two pairs read the same. The first line keeps it apart from
    // whatever else the secret signs.
    mac.update(b"steadfast generation webhook 1\n");
    for part in [generation, task] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_the_webhook_of_its_task_and_no_other() {
        let token = webhook_token(b"secret", "generation", "task");
        assert_eq!(token.len(), 64);
        assert!(verify_webhook_token(b"secret", "generation", "task", &token));
        assert!(!verify_webhook_token(b"secret", "generation", "task2", &token));
        assert!(!verify_webhook_token(b"secret", "generationt", "ask", &token));
        assert!(!verify_webhook_token(b"other", "generation", "task", &token));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let token = webhook_token(b"secret", "g", "t");
        let last = if token.ends_with('0') { '1' } else { '0' };
        let wrong = [&token[..63], &last.to_string()].concat();
        for token in ["", "0", &token[..62], &format!("{token}00"), &wrong, &"ä".repeat(32)] {
            assert!(!verify_webhook_token(b"secret", "g", "t", token), "{token}");
        }
    }
}

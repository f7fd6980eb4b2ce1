//! Fuzz targets: addresses.

use crate::{Address, EntityId, limits};

/// An address, and the digits of an id.
pub fn address(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(id) = EntityId::from_hex(&text) {
        assert_eq!(id.to_string(), text.to_ascii_lowercase());
    }
    let Ok(address) = text.parse::<Address>() else { return };
    assert_eq!(address.to_string(), text);
    assert!(address.class().len() <= limits::CLASS_BYTES_MAX);
    assert!(address.name().len() <= limits::NAME_BYTES_MAX);
    assert!(!text.contains('\0'), "PostgreSQL cannot store this");
    let again = Address::new(address.kind(), address.class(), address.name());
    assert_eq!(again.map(|it| it.id()), Ok(address.id()));
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_address_is_its_text() {
        steadfast_mutations::run("address", super::address, 3_000);
    }
}

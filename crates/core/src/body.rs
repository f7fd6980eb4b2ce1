//! What travels.

use serde::{Serialize, de::DeserializeOwned};

/// What can be written down and read back: any owned serde type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel",
    label = "derive `Serialize` and `Deserialize`, and own everything"
)]
pub trait Body: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Body for T {}

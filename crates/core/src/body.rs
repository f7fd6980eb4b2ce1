//! Types that can be stored and sent.

use serde::{Serialize, de::DeserializeOwned};

/// A type that can be serialized and read back: any owned serde type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel",
    label = "derive `Serialize` and `Deserialize`, and own everything"
)]
pub trait Body: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Body for T {}

//! The admin token of the machine: `admin.token` in the data folder, which only its owner can read.
//! The command line of the same user logs in with it.

use std::{
    io::{self, Read, Write},
    path::Path,
};

use steadfast_core::{AuditEvent, Role, Runtime, TokenError, TokenSpec};
use steadfast_store::private;

/// The name of the file.
pub(crate) const FILE: &str = "admin.token";

/// Reads the token, if this user may.
pub(crate) fn read(data: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(data.join(FILE)).ok()?.take(1_024).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned()).filter(|it| !it.is_empty())
}

/// The admin token of the machine.
pub(crate) struct AdminToken {
    /// The id of the token.
    pub(crate) id: String,
    /// Whether it was created now.
    pub(crate) is_new: bool,
}

/// Has the data folder hold a valid admin token.
pub(crate) async fn ensure(runtime: &Runtime, data: &Path) -> Result<AdminToken, AdminError> {
    if let Some(secret) = read(data) {
        match runtime.tokens().authenticate(&secret).await {
            Ok(principal) if principal.role == Role::Admin => {
                return Ok(AdminToken { id: principal.token, is_new: false });
            }
            Ok(_) | Err(TokenError::Denied(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // A crash between the two leaves a token that nobody has; the next start creates another one.
    let new = runtime.tokens().create(TokenSpec::role(Role::Admin), None).await?;
    write(data, &new.secret)?;
    let event = AuditEvent {
        token: Some(new.token.id.clone()),
        client: "this machine".into(),
        action: "create the admin token".into(),
        target: FILE.into(),
        outcome: "created".into(),
        request_id: String::new(),
    };
    runtime.audit().record(event).await.map_err(TokenError::from)?;
    Ok(AdminToken { id: new.token.id, is_new: true })
}

fn write(data: &Path, secret: &str) -> io::Result<()> {
    let part = data.join("admin.token.part");
    let mut file = private::open_file(&part)?;
    file.set_len(0)?;
    file.write_all(format!("{secret}\n").as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&part, data.join(FILE))
}

/// Why there is no admin token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    /// The file cannot be written.
    #[error("{FILE} in the data folder cannot be written: {0}")]
    File(#[from] io::Error),
    /// The token cannot be created.
    #[error(transparent)]
    Token(#[from] TokenError),
}

//! Example commands that `--help` shows below each verb.

/// Below the help of `steadfast` itself.
pub(super) const STEADFAST: &str = "\
Without a command, `serve` is run.

Examples:
  steadfast
  steadfast streams list
  steadfast objects classes
  steadfast runs list
  steadfast queues list
  steadfast buckets list
  steadfast doctor";

/// Below the help of `serve`.
pub(super) const SERVE: &str = "\
Examples:
  steadfast serve --listen 127.0.0.1:9000 --data ./data
  STEADFAST_STORE=postgres://me@localhost/steadfast steadfast serve";

/// Below the help of `inspect`.
pub(super) const INSPECT: &str = "\
Examples:
  steadfast inspect --data ./other/data
  steadfast objects list counter --server http://127.0.0.1:8787";

/// Below the help of `config show`.
pub(super) const CONFIG: &str = "\
In order of precedence: flag, variable, settings file, default.
`[auctions] fee = 3` in the file is --auctions-fee and STEADFAST_AUCTIONS_FEE.

Example:
  steadfast config show";

/// Below the help of `doctor`.
pub(super) const DOCTOR: &str = "\
Examples:
  steadfast doctor
  steadfast doctor --data ./data --json";

/// Below the help of `login`.
pub(super) const LOGIN: &str = "\
Example:
  steadfast login";

/// Below the help of `whoami`.
pub(super) const WHOAMI: &str = "\
Examples:
  steadfast whoami
  STEADFAST_TOKEN_FILE=./token steadfast whoami --server http://127.0.0.1:9000";

/// Below the help of `completions`.
pub(super) const COMPLETIONS: &str = "\
Examples:
  source <(steadfast completions bash)
  steadfast completions zsh > ~/.zfunc/_steadfast";

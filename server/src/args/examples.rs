//! What `--help` shows below each verb: commands to copy.

/// Below the help of `steadfast` itself.
pub(super) const STEADFAST: &str = "\
Without a verb it serves.

Examples:
  steadfast
  steadfast example checkout
  steadfast streams list
  steadfast objects classes
  steadfast runs list
  steadfast queues list
  steadfast doctor";

/// Below the help of `serve`.
pub(super) const SERVE: &str = "\
Examples:
  steadfast serve --listen 127.0.0.1:9000 --data ./data
  STEADFAST_STORE=postgres://me@localhost/steadfast steadfast serve";

/// Below the help of `doctor`.
pub(super) const DOCTOR: &str = "\
Examples:
  steadfast doctor
  steadfast doctor --data ./data --json";

/// Below the help of `streams list`.
pub(super) const LIST: &str = "\
Example:
  steadfast streams list --limit 10";

/// Below the help of `streams show`.
pub(super) const SHOW: &str = "\
Examples:
  steadfast streams show process/checkout/42
  steadfast streams show 60b5bdcba1353ac8a8b1e05c5d3b9a3e --json";

/// Below the help of `streams pending`.
pub(super) const PENDING: &str = "\
Example:
  steadfast streams pending --stream process/checkout/42";

/// Below the help of `streams dead`.
pub(super) const DEAD: &str = "\
Example:
  steadfast streams dead";

/// Below the help of `streams revive`.
pub(super) const REVIVE: &str = "\
Example:
  steadfast streams revive 17";

/// Below the help of `processes list`.
pub(super) const PROCESSES_LIST: &str = "\
Examples:
  steadfast processes list
  steadfast processes list group-checkout --status open";

/// Below the help of `processes show`.
pub(super) const PROCESSES_SHOW: &str = "\
Example:
  steadfast processes show group-checkout g-1";

/// Below the help of `processes send`.
pub(super) const PROCESSES_SEND: &str = "\
Example:
  steadfast processes send traffic-fine r-1 --type PoliceReportPublished --body \\
    '{\"policeReportId\": \"r-1\", \"offense\": \"parkingViolation\"}'";

/// Below the help of `objects classes`.
pub(super) const OBJECTS_CLASSES: &str = "\
Example:
  steadfast objects classes";

/// Below the help of `objects list`.
pub(super) const OBJECTS_LIST: &str = "\
Example:
  steadfast objects list counter --prefix visits/";

/// Below the help of `objects show`.
pub(super) const OBJECTS_SHOW: &str = "\
Example:
  steadfast objects show counter visits";

/// Below the help of `objects call`.
pub(super) const OBJECTS_CALL: &str = "\
Example:
  steadfast objects call counter visits increment --body '{\"by\": 2}'";

/// Below the help of `objects sql`.
pub(super) const OBJECTS_SQL: &str = "\
Examples:
  steadfast objects sql counter visits 'SELECT * FROM counter'
  steadfast objects sql counter visits 'SELECT n FROM counter WHERE n > ?' --params '[1]' --turn 2";

/// Below the help of `objects turns`.
pub(super) const OBJECTS_TURNS: &str = "\
Examples:
  steadfast objects turns counter visits --limit 10
  steadfast objects turns counter visits --turn 2";

/// Below the help of `objects export`.
pub(super) const OBJECTS_EXPORT: &str = "\
Examples:
  steadfast objects export counter visits
  steadfast objects export counter visits --turn 2 --output before.sqlite";

/// Below the help of `objects delete`.
pub(super) const OBJECTS_DELETE: &str = "\
Example:
  steadfast objects delete counter visits";

/// Below the help of `runs list`.
pub(super) const RUNS_LIST: &str = "\
Examples:
  steadfast runs list
  steadfast runs list order --status waiting --since 2026-11-15 --prefix o-";

/// Below the help of `runs show`.
pub(super) const RUNS_SHOW: &str = "\
Example:
  steadfast runs show order o-1";

/// Below the help of `runs tail`.
pub(super) const RUNS_TAIL: &str = "\
Examples:
  steadfast runs tail order o-1
  steadfast runs tail order o-1 --after 17 --json";

/// Below the help of `runs start`.
pub(super) const RUNS_START: &str = "\
Examples:
  steadfast runs start order --id o-1 --input '{\"orderId\": \"o-1\", \"amount\": 500}'
  steadfast runs start reminder --input @reminder.json --wait 10";

/// Below the help of `runs pause`.
pub(super) const RUNS_PAUSE: &str = "\
Example:
  steadfast runs pause order o-1";

/// Below the help of `runs resume`.
pub(super) const RUNS_RESUME: &str = "\
Example:
  steadfast runs resume order o-1";

/// Below the help of `runs terminate`.
pub(super) const RUNS_TERMINATE: &str = "\
Example:
  steadfast runs terminate order o-1";

/// Below the help of `runs delete`.
pub(super) const RUNS_DELETE: &str = "\
Example:
  steadfast runs delete order o-1";

/// Below the help of `runs restart`.
pub(super) const RUNS_RESTART: &str = "\
Examples:
  steadfast runs restart order o-1
  steadfast runs restart order o-1 --from ship";

/// Below the help of `runs send-event`.
pub(super) const RUNS_SEND_EVENT: &str = "\
Example:
  steadfast runs send-event order o-1 payment --payload '{\"amount\": 500}'";

/// Below the help of `queues list`.
pub(super) const QUEUES_LIST: &str = "\
Example:
  steadfast queues list";

/// Below the help of `queues show`.
pub(super) const QUEUES_SHOW: &str = "\
Example:
  steadfast queues show mail";

/// Below the help of `queues peek`.
pub(super) const QUEUES_PEEK: &str = "\
Examples:
  steadfast queues peek mail
  steadfast queues peek mail --state in-flight --limit 10";

/// Below the help of `queues send`.
pub(super) const QUEUES_SEND: &str = "\
Examples:
  steadfast queues send mail --body '{\"to\": \"ada@example.org\", \"subject\": \"Hello\"}'
  steadfast queues send photos --body @photo.json --delay-ms 60000";

/// Below the help of `queues pause`.
pub(super) const QUEUES_PAUSE: &str = "\
Example:
  steadfast queues pause mail";

/// Below the help of `queues resume`.
pub(super) const QUEUES_RESUME: &str = "\
Example:
  steadfast queues resume mail";

/// Below the help of `queues purge`.
pub(super) const QUEUES_PURGE: &str = "\
Examples:
  steadfast queues purge mail
  steadfast queues purge mail-dead --id 17 --id 18";

/// Below the help of `queues dlq`.
pub(super) const QUEUES_DLQ: &str = "\
Example:
  steadfast queues dlq mail";

/// Below the help of `queues redrive`.
pub(super) const QUEUES_REDRIVE: &str = "\
Examples:
  steadfast queues redrive mail-dead --dry-run
  steadfast queues redrive mail-dead --error-contains \"does not answer\" --rate 10";

/// Below the help of `example checkout`.
pub(super) const CHECKOUT: &str = "\
Examples:
  steadfast example checkout
  timeout -s KILL 2 steadfast example checkout; steadfast example checkout";

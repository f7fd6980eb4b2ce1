//! What `--help` shows below each verb: commands to copy.

/// Below the help of `steadfast` itself.
pub(super) const STEADFAST: &str = "\
Without a verb it serves.

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
A flag goes before its variable, that before the settings file, that before the default.
`[auctions] fee = 3` in the file is --auctions-fee and STEADFAST_AUCTIONS_FEE.

Example:
  steadfast config show";

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

/// Below the help of `buckets list`.
pub(super) const BUCKETS_LIST: &str = "\
Example:
  steadfast buckets list";

/// Below the help of `buckets create`.
pub(super) const BUCKETS_CREATE: &str = "\
Examples:
  steadfast buckets create photos
  steadfast buckets create photos --max-blob-bytes 10000000";

/// Below the help of `buckets delete`.
pub(super) const BUCKETS_DELETE: &str = "\
Example:
  steadfast buckets delete photos";

/// Below the help of `buckets ls`.
pub(super) const BUCKETS_LS: &str = "\
Examples:
  steadfast buckets ls photos
  steadfast buckets ls photos/2026/ --limit 1000";

/// Below the help of `buckets cp`.
pub(super) const BUCKETS_CP: &str = "\
What has no slash, or begins with /, ./ or ../, is always a file. Of two others the first is a
file if there is such a file.

Examples:
  steadfast buckets cp cat.png photos/2026/cat.png
  steadfast buckets cp ./pets/dog.png photos/2026/
  steadfast buckets cp photos/2026/cat.png ./cat.png";

/// Below the help of `buckets rm`.
pub(super) const BUCKETS_RM: &str = "\
Example:
  steadfast buckets rm photos/2026/cat.png";

/// Below the help of `buckets presign`.
pub(super) const BUCKETS_PRESIGN: &str = "\
Examples:
  steadfast buckets presign photos/2026/cat.png
  steadfast buckets presign photos/2026/new.png --method put --expires 10m";

/// Below the help of `buckets rules list`.
pub(super) const RULES_LIST: &str = "\
Example:
  steadfast buckets rules list photos";

/// Below the help of `buckets rules put`.
pub(super) const RULES_PUT: &str = "\
Examples:
  steadfast buckets rules put photos thumbnails --queue thumbnails --suffix .png
  steadfast buckets rules put photos all --queue q --event object-create --event object-delete";

/// Below the help of `buckets rules delete`.
pub(super) const RULES_DELETE: &str = "\
Example:
  steadfast buckets rules delete photos thumbnails";

/// Below the help of `buckets lifecycle list`.
pub(super) const LIFECYCLE_LIST: &str = "\
Example:
  steadfast buckets lifecycle list photos";

/// Below the help of `buckets lifecycle put`.
pub(super) const LIFECYCLE_PUT: &str = "\
Examples:
  steadfast buckets lifecycle put photos old --prefix tmp/ --delete-after 30d
  steadfast buckets lifecycle put photos stale --abort-uploads-after 12h";

/// Below the help of `buckets lifecycle delete`.
pub(super) const LIFECYCLE_DELETE: &str = "\
Example:
  steadfast buckets lifecycle delete photos old";

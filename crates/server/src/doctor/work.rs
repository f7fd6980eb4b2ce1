//! Checks that pending work will be delivered.

use steadfast_api::server::Check;
use steadfast_core::Runtime;

/// Maximum number of positions in the report.
const NAMED_MAX: usize = 10;

/// All pending work must have something that wakes it.
pub(super) async fn wake_ups(runtime: &Runtime) -> Check {
    match runtime.forgotten().await {
        Ok(found) if found.is_empty() => Check::ok("wake-ups", "all pending work is scheduled"),
        Ok(found) => {
            let named: Vec<String> = found.iter().take(NAMED_MAX).map(i64::to_string).collect();
            let (count, named) = (found.len(), named.join(", "));
            let detail =
                format!("nothing will deliver {count} messages ({named}, …); restart the program");
            Check::failed("wake-ups", detail)
        }
        Err(error) => Check::failed("wake-ups", error.to_string()),
    }
}

/// Reports messages for targets that this program does not declare: another program must deliver
/// them.
pub(super) async fn unserved(runtime: &Runtime) -> Check {
    match runtime.unserved().await {
        Ok(found) if found.is_empty() => Check::ok("served", "this program serves all stored work"),
        Ok(found) => {
            let named: Vec<String> =
                found.iter().take(NAMED_MAX).map(ToString::to_string).collect();
            let named = named.join("; ");
            let advice = "start the program that declares it, or declare it here";
            Check::warning("served", format!("not served here: {named}; {advice}"))
        }
        Err(error) => Check::failed("served", error.to_string()),
    }
}

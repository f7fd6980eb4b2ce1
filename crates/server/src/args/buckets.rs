//! Verbs about buckets.

use clap::{Args, Subcommand, ValueEnum};

use super::{AskArgs, ListArgs, examples};

/// Verbs about buckets.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BucketsVerb {
    /// Lists the buckets
    #[command(after_help = examples::BUCKETS_LIST)]
    List(ListArgs),
    /// Makes a bucket, or sets what it takes
    #[command(after_help = examples::BUCKETS_CREATE)]
    Create {
        #[command(flatten)]
        bucket: BucketArgs,
        /// Bytes of the largest blob that it takes
        #[arg(long, env = "STEADFAST_MAX_BLOB_BYTES", value_name = "BYTES")]
        max_blob_bytes: Option<u64>,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Deletes an empty bucket
    #[command(after_help = examples::BUCKETS_DELETE)]
    Delete {
        #[command(flatten)]
        bucket: BucketArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Lists what is in a bucket, one level at a time
    #[command(after_help = examples::BUCKETS_LS)]
    Ls {
        /// The bucket, and the beginning of the keys
        #[arg(value_name = "BUCKET[/PREFIX]")]
        place: String,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Copies a file into a bucket, or out of it
    #[command(after_help = examples::BUCKETS_CP)]
    Cp(CpArgs),
    /// Deletes a blob
    #[command(after_help = examples::BUCKETS_RM)]
    Rm {
        #[command(flatten)]
        blob: BlobArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Makes a link by which a blob can be read or written without a key
    #[command(after_help = examples::BUCKETS_PRESIGN)]
    Presign(PresignArgs),
    /// Shows and sets which changes are sent to which queue
    #[command(subcommand)]
    Rules(RulesVerb),
    /// Shows and sets what is deleted when it is old
    #[command(subcommand)]
    Lifecycle(LifecycleVerb),
}

/// One bucket.
#[derive(Clone, Debug, Args)]
pub(crate) struct BucketArgs {
    /// The bucket
    #[arg(value_name = "BUCKET")]
    pub(crate) name: String,
}

/// One blob.
#[derive(Clone, Debug, Args)]
pub(crate) struct BlobArgs {
    /// The blob
    #[arg(value_name = "BUCKET/KEY")]
    pub(crate) place: String,
}

/// From where to where.
#[derive(Clone, Debug, Args)]
pub(crate) struct CpArgs {
    /// A file, or BUCKET/KEY
    pub(crate) from: String,
    /// The other of the two. What ends with a slash is completed with the name of the file
    pub(crate) to: String,
    /// The media type of what goes in; by the name of the file if it is left out
    #[arg(long, env = "STEADFAST_CONTENT_TYPE", value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// What a link allows.
#[derive(Clone, Debug, Args)]
pub(crate) struct PresignArgs {
    #[command(flatten)]
    pub(crate) blob: BlobArgs,
    /// get, to read it, or put, to write it
    #[arg(long, env = "STEADFAST_METHOD", default_value = "get")]
    pub(crate) method: MethodArg,
    /// How long it holds, up to 7d: a number with s, m, h or d
    #[arg(long, env = "STEADFAST_EXPIRES", default_value = "1h", value_name = "TIME")]
    pub(crate) expires: Span,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// What a link allows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MethodArg {
    Get,
    Put,
}

/// Verbs about rules.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RulesVerb {
    /// Lists the rules of a bucket
    #[command(after_help = examples::RULES_LIST)]
    List {
        #[command(flatten)]
        bucket: BucketArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Sends changes to a queue; a rule of the same id is replaced
    #[command(after_help = examples::RULES_PUT)]
    Put(RuleArgs),
    /// Removes a rule
    #[command(after_help = examples::RULES_DELETE)]
    Delete {
        #[command(flatten)]
        bucket: BucketArgs,
        /// The rule
        id: String,
        #[command(flatten)]
        ask: AskArgs,
    },
}

/// A rule.
#[derive(Clone, Debug, Args)]
pub(crate) struct RuleArgs {
    #[command(flatten)]
    pub(crate) bucket: BucketArgs,
    /// The rule
    pub(crate) id: String,
    /// The queue that is told
    #[arg(long, env = "STEADFAST_QUEUE")]
    pub(crate) queue: String,
    /// Which changes; may be given several times
    #[arg(
        long = "event",
        env = "STEADFAST_EVENT",
        value_name = "EVENT",
        value_delimiter = ',',
        default_value = "object-create"
    )]
    pub(crate) events: Vec<EventArg>,
    /// Only keys that begin with this
    #[arg(long, env = "STEADFAST_PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Only keys that end with this
    #[arg(long, env = "STEADFAST_SUFFIX", default_value = "", hide_default_value = true)]
    pub(crate) suffix: String,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// A sort of events.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EventArg {
    ObjectCreate,
    ObjectDelete,
}

impl EventArg {
    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            EventArg::ObjectCreate => "object-create",
            EventArg::ObjectDelete => "object-delete",
        }
    }
}

/// Verbs about lifecycle rules.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LifecycleVerb {
    /// Lists the lifecycle rules of a bucket
    #[command(after_help = examples::LIFECYCLE_LIST)]
    List {
        #[command(flatten)]
        bucket: BucketArgs,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Deletes what is old; a rule of the same id is replaced
    #[command(after_help = examples::LIFECYCLE_PUT)]
    Put(LifecycleArgs),
    /// Removes a lifecycle rule
    #[command(after_help = examples::LIFECYCLE_DELETE)]
    Delete {
        #[command(flatten)]
        bucket: BucketArgs,
        /// The rule
        id: String,
        #[command(flatten)]
        ask: AskArgs,
    },
}

/// A lifecycle rule.
#[derive(Clone, Debug, Args)]
pub(crate) struct LifecycleArgs {
    #[command(flatten)]
    pub(crate) bucket: BucketArgs,
    /// The rule
    pub(crate) id: String,
    /// Only keys that begin with this
    #[arg(long, env = "STEADFAST_PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Deletes blobs so long after they were written: a number with s, m, h or d
    #[arg(long, env = "STEADFAST_DELETE_AFTER", value_name = "TIME")]
    pub(crate) delete_after: Option<Span>,
    /// Aborts uploads in parts so long after they began
    #[arg(long, env = "STEADFAST_ABORT_UPLOADS_AFTER", value_name = "TIME")]
    pub(crate) abort_uploads_after: Option<Span>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// A length of time, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) u64);

impl std::str::FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "write a number with s, m, h or d, for example 30d";
        let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(wrong)?;
        let unit = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(wrong),
        };
        let number: u64 = number.parse().map_err(|_| wrong)?;
        number.checked_mul(unit).map(Self).ok_or("is too long")
    }
}

impl Span {
    /// In milliseconds.
    pub(crate) fn millis(self) -> u64 {
        self.0.saturating_mul(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_its_unit() {
        for (text, seconds) in [("30d", 2_592_000), ("12h", 43_200), ("5m", 300), ("90s", 90)] {
            assert_eq!(text.parse(), Ok(Span(seconds)));
        }
        for bad in ["", "d", "30", "3w", "-1d", "1.5h", "ü", "99999999999999999999d"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
        assert!("9999999999999999999d".parse::<Span>().is_err());
    }
}

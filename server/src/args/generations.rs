//! Who makes pictures and clips.

use clap::Args;
use steadfast_egress::Network;

/// How a task of Runware is found whose answer was lost.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum RunwareReconcile {
    // By `getResponse`. What stands here as documentation would be shown by `--help`.
    Response,
    // By `getTaskDetails`.
    Details,
}

/// Who makes pictures and clips, and how long they may take.
#[derive(Clone, Debug, Args)]
pub(crate) struct GenerationArgs {
    /// Key for Runware; better given by the variable. Without one only the embedded models are
    /// there
    #[arg(long, env = "STEADFAST_RUNWARE_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) runware_key: Option<String>,
    /// Where Runware is, if not at its own address
    #[arg(long, env = "STEADFAST_RUNWARE_URL", value_name = "URL")]
    pub(crate) runware_url: Option<String>,
    /// How a task is found whose answer was lost: `response` asks as documented and has images
    /// delivered later, `details` asks what is not documented and has images delivered at once
    #[arg(
        long,
        env = "STEADFAST_RUNWARE_RECONCILE",
        value_name = "HOW",
        value_enum,
        default_value = "response"
    )]
    pub(crate) runware_reconcile: RunwareReconcile,
    /// Networks that outputs of Runware may be fetched from although they are not public
    #[arg(
        long,
        env = "STEADFAST_OUTPUT_NETWORKS",
        value_name = "NETWORK,…",
        value_delimiter = ','
    )]
    pub(crate) output_networks: Vec<Network>,
    /// Where providers reach this server; without it they are asked instead of waiting for webhooks
    #[arg(long, env = "STEADFAST_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Seconds that a picture may take
    #[arg(long, env = "STEADFAST_IMAGE_TIMEOUT", value_name = "SECONDS", default_value = "300",
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) image_timeout: u32,
    /// Seconds that a clip may take
    #[arg(long, env = "STEADFAST_VIDEO_TIMEOUT", value_name = "SECONDS", default_value = "600",
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) video_timeout: u32,
    /// Requests to one provider that are under way at a time
    #[arg(long, env = "STEADFAST_PROVIDER_REQUESTS", value_name = "N", default_value = "16",
        value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) provider_requests: u16,
}

//! Comparisons: begun, looked at, and held against each other.

use axum::{
    body::Bytes,
    extract::{Path, Request},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use steadfast_core::Object;
use steadfast_egress::EgressError;
use steadfast_web::{
    Cursor, IdempotencyKey, Json, Limit, ListPage, PageRequest, Params, Problem, read_body,
};

use super::Site;
use crate::{
    Brief, Comparison, CreateComparison, EnvPair, GetComparison, GetSealed, ListComparisons,
    ListPairs, PairEntry, Shown,
    pair::{Pair, pair_key_of},
    probe::is_redacted,
};

/// The code of a comparison that retention removed.
pub(super) const FORGOTTEN: &str = "comparison_forgotten";
/// The code of a URL that was shown without its secret, and was given as it was shown.
pub(super) const SECRET_MISSING: &str = "secret_missing";

fn unknown(id: &str) -> Problem {
    let detail = format!("comparison `{id}` does not exist, or retention removed it");
    Problem::not_found("unknown_comparison", detail)
}

fn forgotten(id: &str) -> Problem {
    let detail = format!(
        "retention removed comparison `{id}` with its URLs and their secrets; enter the URLs again"
    );
    Problem::new(StatusCode::GONE, FORGOTTEN, detail)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    left_url: String,
    right_url: String,
    #[serde(default)]
    left_label: Option<String>,
    #[serde(default)]
    right_label: Option<String>,
    #[serde(default)]
    options: Options,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// `GET` or `HEAD`.
    #[serde(default)]
    method: Option<String>,
}

pub(super) async fn create(
    site: Site,
    key: IdempotencyKey,
    body: Bytes,
) -> Result<Response, Problem> {
    let form = "{\"leftUrl\", \"rightUrl\", \"leftLabel\", \"rightLabel\", \"options\"}";
    let body: Body = read_body(&body, "invalid_request", form)?;
    let head = match body.options.method.as_deref() {
        None | Some("GET") => false,
        Some("HEAD") => true,
        Some(_) => return Err(Problem::invalid("invalid_request", "`method` must be GET or HEAD")),
    };
    let Body { left_url, right_url, left_label, right_label, .. } = body;
    let comparison = Comparison { left_url, right_url, left_label, right_label, head };
    let begun = begin(&site, comparison, &key).await?;
    let pair_key = pair_key_of(&begun.comparison_id).unwrap_or_default();
    let answer = json!({ "comparisonId": begun.comparison_id, "pairKey": pair_key });
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Begins a comparison of two URLs that may be asked. The same key is the same comparison.
pub(super) async fn begin(
    site: &Site,
    comparison: Comparison,
    key: &IdempotencyKey,
) -> Result<Shown, Problem> {
    if is_redacted(&comparison.left_url) || is_redacted(&comparison.right_url) {
        let text = "a URL contains [redacted]; enter its secret again";
        return Err(Problem::invalid(SECRET_MISSING, text));
    }
    let not_allowed = |error: EgressError| Problem::invalid(error.code(), error.to_string());
    let left = site.policy.check(&comparison.left_url).map_err(not_allowed)?;
    let right = site.policy.check(&comparison.right_url).map_err(not_allowed)?;
    let pair = Pair::new(left.url(), right.url())?;
    for label in [&comparison.left_label, &comparison.right_label].into_iter().flatten() {
        if 100 < label.chars().count() {
            return Err(Problem::invalid(
                "invalid_request",
                "a label must have at most 100 characters",
            ));
        }
    }
    let digest = digest(&comparison);
    let once = key.request("compare", None, digest.as_bytes())?;
    let mut bytes = [0; 16];
    match key.text() {
        // Two requests with one key at once name one comparison.
        Some(key) => bytes.copy_from_slice(&Sha256::digest(format!("{key} {digest}"))[..16]),
        None => {
            bytes[..8].copy_from_slice(&site.entropy.next().to_be_bytes());
            bytes[8..].copy_from_slice(&site.entropy.next().to_be_bytes());
        }
    }
    let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid().to_string();
    let (comparison, sealed) = site.vault.seal(&comparison)?;
    let (comparison_id, direction) = (pair.comparison_id(&uuid), pair.direction());
    let create = CreateComparison { comparison_id, comparison, direction, sealed };
    let pair = site.pair(pair.key());
    match once {
        Some(key) => Ok(site.objects.call_once(pair, create, key).await?),
        None => Ok(site.objects.call(pair, create).await?),
    }
}

/// A hash of a request. The URLs may have secrets, which are kept nowhere as they are.
fn digest(comparison: &Comparison) -> String {
    let request = serde_json::to_vec(comparison).unwrap_or_default();
    HEXLOWER.encode(&Sha256::digest(request))
}

pub(super) async fn find(site: &Site, id: &str) -> Result<Shown, Problem> {
    let pair = pair_key_of(id).ok_or_else(|| unknown(id))?;
    let ask = GetComparison { comparison_id: id.into() };
    let found = site.objects.call(site.pair(pair), ask).await?;
    found.ok_or_else(|| unknown(id))
}

/// The comparison with the URLs that an earlier one asked, wherever it has those that were shown of
/// them: secrets are shown to nobody, and asking again must not need them. Fails with
/// `comparison_forgotten` if it does, because the earlier one is not there any more.
pub(super) async fn as_before(
    site: &Site,
    mut comparison: Comparison,
    earlier: &str,
) -> Result<Comparison, Problem> {
    let pair = pair_key_of(earlier).ok_or_else(|| unknown(earlier))?;
    let ask = GetComparison { comparison_id: earlier.into() };
    let Some(found) = site.objects.call(site.pair(pair), ask).await? else {
        let needs_it = is_redacted(&comparison.left_url) || is_redacted(&comparison.right_url);
        return if needs_it { Err(forgotten(earlier)) } else { Ok(comparison) };
    };
    let shown = found.result.map(|it| it.comparison);
    let ask = GetSealed { comparison_id: earlier.into() };
    let sealed = site.objects.call(site.pair(pair), ask).await?;
    let (Some(shown), Some(sealed)) = (shown, sealed) else { return Ok(comparison) };
    let [left, right] = site.vault.open(&sealed)?;
    let (left, right) = ((&shown.left_url, &left), (&shown.right_url, &right));
    let replace = |url: &mut String, first: (&String, &String), second: (&String, &String)| {
        let real = [first, second].into_iter().find(|it| it.0 == url);
        real.into_iter().for_each(|(_, real)| url.clone_from(real));
    };
    // Somebody may have swapped them; what looks the same stays on its side.
    replace(&mut comparison.left_url, left, right);
    replace(&mut comparison.right_url, right, left);
    Ok(comparison)
}

pub(super) async fn show(site: Site, Path(id): Path<String>) -> Result<Json<Shown>, Problem> {
    find(&site, &id).await.map(Json)
}

pub(super) async fn events(
    site: Site,
    Path(id): Path<String>,
    mut request: Request,
) -> Result<Response, Problem> {
    let id = find(&site, &id).await?.comparison_id;
    let pair = pair_key_of(&id).unwrap_or_default().to_owned();
    // The pair tells of all its comparisons, and of this one at once.
    let uri = format!("{}?comparison={id}", request.uri().path());
    *request.uri_mut() = uri.parse().map_err(|_| unknown(&id))?;
    Ok((site.connect)(EnvPair::CLASS, site.object_of(&pair), request).await)
}

/// The query of a list. Its page has at most 200 rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    limit: Limit,
}

impl ListQuery {
    fn page(&self) -> Result<PageRequest, Problem> {
        PageRequest::new(self.limit, self.cursor.as_deref())?.at_most(200)
    }
}

pub(super) async fn pairs(
    site: Site,
    Params(query): Params<ListQuery>,
) -> Result<Json<ListPage<PairEntry>>, Problem> {
    find_pairs(&site, &query.page()?).await.map(Json)
}

/// A page of the pairs.
pub(super) async fn find_pairs(
    site: &Site,
    page: &PageRequest,
) -> Result<ListPage<PairEntry>, Problem> {
    let ask = ListPairs { limit: page.rows_to_read(), after: page.after_time()? };
    let found = site.objects.call(site.pairs(), ask).await?;
    Ok(page.page(found, |it| Cursor::Time(it.last_at, it.pair_key.clone()), |it| it))
}

pub(super) async fn history(
    site: Site,
    Path(pair): Path<String>,
    Params(query): Params<ListQuery>,
) -> Result<Json<ListPage<Brief>>, Problem> {
    let page = query.page()?;
    let is_key = pair.len() == 40 && pair.bytes().all(|it| it.is_ascii_hexdigit());
    let unknown = || Problem::not_found("unknown_pair", format!("pair `{pair}` does not exist"));
    if !is_key {
        return Err(unknown());
    }
    // Comparisons are numbered from 1.
    let before = Some(page.after_version()?).filter(|it| 0 < *it);
    let ask = ListComparisons { before, limit: page.rows_to_read() };
    let found = site.objects.call(site.pair(&pair), ask).await?;
    if found.is_empty() && before.is_none() {
        return Err(unknown());
    }
    Ok(Json(page.page(found, |it| Cursor::Version(it.sequence), |it| it)))
}

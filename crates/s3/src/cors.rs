//! Rules of buckets for pages of other origins (CORS): their configuration, preflights, and the
//! headers of responses. Responses never allow credentials: signatures are the credentials of S3.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use s3s::{
    Body, S3Error, S3Request, S3Response, S3Result,
    dto::{
        CORSRule, DeleteBucketCorsInput, DeleteBucketCorsOutput, GetBucketCorsInput,
        GetBucketCorsOutput, PutBucketCorsInput, PutBucketCorsOutput,
    },
    s3_error,
};
use steadfast_bucket::{BucketName, Buckets, CorsRule};

use crate::{
    convert,
    errors::{self, coded, s3_error_of},
    operations::S3Operations,
};

/// Maximum number of headers that a preflight may ask for.
const ASKED_MAX: usize = 100;

/// The parts of a request that rules are about.
pub(crate) struct CorsRequest {
    bucket: Option<BucketName>,
    origin: Option<String>,
    /// The method of the request, or the one that a preflight asks for.
    method: Method,
    /// The headers that a preflight asks for, in lowercase; `None` if the request is no preflight.
    asked: Option<Vec<String>>,
}

impl CorsRequest {
    pub(crate) fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|it| it.to_str().ok());
        let origin = text(header::ORIGIN);
        let wanted = text(header::ACCESS_CONTROL_REQUEST_METHOD)
            .filter(|_| *method == Method::OPTIONS && origin.is_some())
            .and_then(|it| Method::from_bytes(it.as_bytes()).ok());
        let asked = wanted.as_ref().map(|_| {
            let names = text(header::ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
            let names = names.split(',').map(|it| it.trim().to_ascii_lowercase());
            names.filter(|it| !it.is_empty()).take(ASKED_MAX + 1).collect()
        });
        let bucket = uri.path().trim_start_matches('/').split('/').next().unwrap_or_default();
        Self {
            bucket: BucketName::new(bucket).ok(),
            origin: origin.map(str::to_owned),
            method: wanted.unwrap_or_else(|| method.clone()),
            asked,
        }
    }

    /// Answers a preflight; `None` if the request is none. A preflight has no signature, so the
    /// refusal is the same without a rule that fits and without the bucket.
    pub(crate) async fn preflight(&self, buckets: &Buckets) -> Option<Response<Body>> {
        let asked = self.asked.as_deref()?;
        let rules = self.rules(buckets).await;
        let Some((rule, origin)) = self.find(&rules, asked) else {
            return Some(errors::response(refused()));
        };
        let mut answer = Response::new(Body::empty());
        let headers = answer.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        insert_list(headers, header::ACCESS_CONTROL_ALLOW_METHODS, &rule.methods);
        insert_list(headers, header::ACCESS_CONTROL_ALLOW_HEADERS, asked);
        if let Some(seconds) = rule.max_age_seconds {
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(seconds));
        }
        let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
        headers.insert(header::VARY, HeaderValue::from_static(vary));
        Some(answer)
    }

    /// Adds the headers that let a page read the response.
    pub(crate) async fn add_headers(&self, buckets: &Buckets, answer: &mut Response<Body>) {
        // A browser may show a blob as an image first, and give the cached response to a script.
        let is_cached = self.method == Method::GET && answer.status().is_success();
        if self.origin.is_none() && !is_cached {
            return;
        }
        let rules = self.rules(buckets).await;
        // The header does not reveal whether there are rules, or a bucket.
        if rules.is_empty() && self.origin.is_none() {
            return;
        }
        let headers = answer.headers_mut();
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some((rule, origin)) = self.find(&rules, &[]) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            insert_list(headers, header::ACCESS_CONTROL_EXPOSE_HEADERS, &rule.expose_headers);
        }
    }

    async fn rules(&self, buckets: &Buckets) -> Vec<CorsRule> {
        match &self.bucket {
            Some(bucket) => buckets.cors(bucket).await.unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// The first rule that fits, and the origin that the response allows.
    fn find<'a>(
        &self,
        rules: &'a [CorsRule],
        asked: &[String],
    ) -> Option<(&'a CorsRule, HeaderValue)> {
        let origin = self.origin.as_deref()?;
        let rule = rules.iter().find(|rule| {
            rule.origins.iter().any(|it| fits(it, origin))
                && rule.methods.iter().any(|it| self.method == it.as_str())
                && allows(rule, asked)
        })?;
        let is_any = rule.origins.iter().any(|it| it == "*");
        let shown = if is_any { "*" } else { origin };
        Some((rule, HeaderValue::from_str(shown).ok()?))
    }
}

fn refused() -> S3Error {
    let text = "no CORS rule of the bucket allows the origin, method and headers of the request; \
                PutBucketCors or `steadfast buckets cors put` sets one";
    coded("AccessForbidden", StatusCode::FORBIDDEN, text)
}

/// Whether a rule allows all of these headers.
fn allows(rule: &CorsRule, asked: &[String]) -> bool {
    if asked.is_empty() {
        return true;
    }
    let patterns: Vec<String> = rule.headers.iter().map(|it| it.to_ascii_lowercase()).collect();
    asked.len() <= ASKED_MAX
        && asked.iter().all(|name| patterns.iter().any(|pattern| fits(pattern, name)))
}

/// Whether a text fits a pattern with at most one `*`.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            start.len() + end.len() <= text.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}

fn insert_list(headers: &mut HeaderMap, name: HeaderName, items: &[String]) {
    if !items.is_empty()
        && let Ok(value) = HeaderValue::from_str(&items.join(", "))
    {
        headers.insert(name, value);
    }
}

impl S3Operations {
    pub(crate) async fn cors_get(
        &self,
        req: S3Request<GetBucketCorsInput>,
    ) -> S3Result<S3Response<GetBucketCorsOutput>> {
        let bucket = convert::bucket(&req.input.bucket)?;
        let rules = self.buckets.cors(&bucket).await.map_err(s3_error_of)?;
        if rules.is_empty() {
            let lacks = "CORS rules; PutBucketCors or `steadfast buckets cors put` sets one";
            return self.unset(&req.input.bucket, "NoSuchCORSConfiguration", lacks).await;
        }
        let cors_rules = Some(rules.into_iter().map(shown).collect());
        Ok(S3Response::new(GetBucketCorsOutput { cors_rules }))
    }

    pub(crate) async fn cors_put(
        &self,
        req: S3Request<PutBucketCorsInput>,
    ) -> S3Result<S3Response<PutBucketCorsOutput>> {
        let bucket = convert::bucket(&req.input.bucket)?;
        let rules = req.input.cors_configuration.cors_rules.into_iter().zip(1..).map(read);
        let rules = rules.collect::<S3Result<Vec<_>>>()?;
        if rules.is_empty() {
            return Err(s3_error!(MalformedXML, "a CORSConfiguration has at least one CORSRule"));
        }
        self.buckets.set_cors(&bucket, rules).await.map_err(s3_error_of)?;
        Ok(S3Response::new(PutBucketCorsOutput::default()))
    }

    pub(crate) async fn cors_delete(
        &self,
        req: S3Request<DeleteBucketCorsInput>,
    ) -> S3Result<S3Response<DeleteBucketCorsOutput>> {
        let bucket = convert::bucket(&req.input.bucket)?;
        self.buckets.set_cors(&bucket, Vec::new()).await.map_err(s3_error_of)?;
        Ok(S3Response::new(DeleteBucketCorsOutput::default()))
    }
}

/// Converts a rule of S3. The id is optional there; the HTTP API finds rules by their ids.
fn read((rule, number): (CORSRule, u32)) -> S3Result<CorsRule> {
    let seconds = rule.max_age_seconds.map(u32::try_from).transpose();
    let text = "MaxAgeSeconds must not be negative";
    Ok(CorsRule {
        id: rule.id.unwrap_or_else(|| format!("rule-{number}")),
        origins: rule.allowed_origins,
        methods: rule.allowed_methods,
        headers: rule.allowed_headers.unwrap_or_default(),
        expose_headers: rule.expose_headers.unwrap_or_default(),
        max_age_seconds: seconds.map_err(|_| s3_error!(InvalidArgument, "{text}"))?,
    })
}

fn shown(rule: CorsRule) -> CORSRule {
    CORSRule {
        id: Some(rule.id),
        allowed_origins: rule.origins,
        allowed_methods: rule.methods,
        allowed_headers: Some(rule.headers).filter(|it| !it.is_empty()),
        expose_headers: Some(rule.expose_headers).filter(|it| !it.is_empty()),
        max_age_seconds: rule.max_age_seconds.and_then(|it| i32::try_from(it).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_whole_texts_only() {
        for (pattern, text, expected) in [
            ("https://app.example", "https://app.example", true),
            ("https://app.example", "https://app.example.evil.example", false),
            ("https://app.example", "https://app.example:8443", false),
            ("https://app.example", "http://app.example", false),
            ("https://*.app.example", "https://a.b.app.example", true),
            ("https://*.app.example", "https://app.example", false),
            ("https://*.app.example", "https://evilapp.example", false),
            ("https://*.app.example", "https://a.app.example.evil.example", false),
            ("aba*ba", "aba", false),
            ("*", "null", true),
            ("", "null", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}

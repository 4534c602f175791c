//! The answer to a request that a forward proxy does not pass on: what stands in the way, for people and for programs.

use sojourn_http::request::{Method, Request};
use sojourn_http::{Status, head};

use super::Http1;
use super::answer::Step;
use crate::connection::Context;
use crate::handler::reverse_proxy::{Outcome, Refusal};

impl Http1 {
    /// Answers `request`, which `obstacle` keeps from its origin.
    pub(super) fn obstructed(
        &mut self,
        request: &Request<'_>,
        obstacle: Refusal,
        context: &mut Context<'_>,
    ) -> Step {
        let status = obstacle.status();
        context.served.count(obstacle.counter());
        if status == Status::Forbidden {
            self.dealings().outcome = Outcome::Denied;
        }
        self.begin(status, Some(request), context);
        self.status_fields(status);
        let page = format!("{}<p>{}\n", head::error_page(status), obstacle.explanation());
        let pseudonym = &context.exchanges.as_ref().expect("a proxy has exchanges").proxy().pseudonym;
        // RFC 9209: which proxy, and what is wrong.
        head::field(&mut self.output, "Proxy-Status", &format!("{pseudonym}; error={}", obstacle.error()));
        head::field(&mut self.output, "Content-Type", "text/html; charset=utf-8");
        head::content_length(&mut self.output, page.len() as u64);
        head::end(&mut self.output);
        if request.method == Method::Head {
            return self.answered(request, status, 0, context);
        }
        self.output.extend_from_slice(page.as_bytes());
        self.answered(request, status, page.len(), context)
    }
}

//! Which of a document's variants a request gets (RFC 9110, 12).

use std::sync::Arc;

use sojourn_content::{Choice, Document};
use sojourn_http::negotiation::{self, preferred};
use sojourn_http::request::Request;

/// The variant of `document` that `request` prefers; `None` if it refuses every one. One without variants is sent
/// whatever the request says: there is nothing to choose from.
pub(super) fn choose<'a>(document: &'a Arc<Document>, request: &Request<'_>) -> Option<&'a Arc<Document>> {
    let variants = &document.variants;
    if variants.is_empty() {
        return Some(document);
    }
    match document.choice {
        Choice::None => Some(document),
        Choice::AcceptEncoding => {
            let coded = |coding| variants.iter().find(|variant| variant.coding == Some(coding));
            match negotiation::choose(request.accept_encoding, |coding| coded(coding).is_some()) {
                negotiation::Choice::Coded(coding) => coded(coding),
                negotiation::Choice::Identity => Some(document),
                negotiation::Choice::Nothing => None,
            }
        }
        Choice::Accept => {
            let bare =
                |document: &'a Arc<Document>| document.media_type.split(';').next().unwrap_or_default();
            let offers = [bare(document), bare(&variants[0])];
            Some([document, &variants[0]][preferred(request.accept, &offers)])
        }
    }
}

//! The world of the flow table as objects of the API.
//!
//! The table also describes services that no apiserver accepts (a proxy meets them in manifests, or from older
//! clusters). What the API refuses is amended here, and nowhere else: each rule names the field, the API's
//! reason and how often it is met, so that nothing is left out unnoticed.

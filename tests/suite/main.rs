//! The suite, as one program: every module is a group of properties that hold.

mod fixture;

mod attention_golden;
mod attention_properties;
mod fenwick;
mod model_golden;
mod optimizer_golden;

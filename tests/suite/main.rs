//! The suite, as one program: every module is a group of properties that hold.

mod fixture;

mod attention_golden;
mod attention_properties;
mod command_line;
mod comparisons;
mod crashes;
mod fenwick;
mod kernel_cache;
mod kernels;
mod lambda_maps;
mod language;
mod language_golden;
mod language_pictures;
mod language_results;
mod language_training;
mod layers;
mod model_golden;
mod optimizer_golden;
mod pictures;
mod repeats;
mod sweep_commands;
mod sweeps;
mod tasks;
mod text;
mod training;

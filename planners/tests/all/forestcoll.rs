//! ForestColl from outside: public vectors, properties, large fabrics, judged by a checker of their own.

mod allreduce;
mod checker;
mod codes;
mod fabrics;
mod large;
mod properties;
mod refusals;
mod vectors;

//! The messages of `proto/ohm.proto`, as generated.

tonic::include_proto!("ohm.v1");

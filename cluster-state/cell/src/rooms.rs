//! Room on nodes: what a group finds, what is held for tasks that do not run there yet (preemptors, heads of
//! lines, moves, spares, repairs), and what would be if more were taken.

pub(crate) mod ceded;
pub(crate) mod checks;
pub(crate) mod counted;
pub(crate) mod grid;
pub(crate) mod heads;
pub(crate) mod laying;
pub(crate) mod moves;
pub(crate) mod neighbours;
pub(crate) mod nominations;
pub(crate) mod order;
pub(crate) mod overlay;
pub(crate) mod planned_rooms;
pub(crate) mod preferences;
mod promised;
pub(crate) mod quota_if;
pub(crate) mod reads;
pub(crate) mod room;
pub(crate) mod stops;
pub(crate) mod strict_order;
pub(crate) mod surroundings;
pub(crate) mod turns;
pub(crate) mod what_if;

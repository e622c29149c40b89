//! Planted bugs, to prove that the simulator finds such bugs.
//!
//! Each is planted at a seam of a core: a file `planted.rs` asks [`is_planted`] and alters what goes in or comes out.
//! Where a core has no such seam, one line in it asks. Without the feature `planted-bugs`, [`is_planted`] is a constant
//! `false` and the compiler leaves nothing of them; the `ohm` binary refuses to be built with the feature. With it, one
//! build holds them all, and only a test can `plant` one.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Bug {
    /// The log takes rows without asking whether there is room.
    SkipFitCheck = 1,
    /// The write-ahead log answers before its bytes are synced.
    AnswerBeforeSync,
    /// A snapshot forgets which commands of a session were answered.
    ForgetSessions,
    /// A command that was applied before is applied again.
    ApplyTwice,
    /// A node is declared lost while its lease may still run.
    EarlyLoss,
    /// An agent takes its lease for twice as long as it is.
    LongLease,
    /// The tasks of a gang are counted twice when its minimum is judged.
    CountGangTwice,
    /// One kind of copy applies the commands of an entry in another order.
    UnorderedApply,
    /// Reports are believed whatever attempt they are about.
    IgnoreIncarnation,
    /// A closed job may still be placed.
    PlaceClosed,
    /// Required topologies are not judged at commit.
    SkipTopology,
    /// Quotas are not judged at commit.
    SkipQuota,
    /// Cordons are not judged at commit.
    IgnoreCordon,
    /// The room of ended runs stays taken.
    KeepEndedRoom,
    /// A refused planner is told to wait for an entry that will not come.
    WrongRefresh,
    /// A lost node counts as the task's own failure.
    ChargeLostNodes,
    /// A loss does not move the version of its job: a plan made before it still commits.
    StaleRepair,
    /// A suspended or finished job is still to be repaired.
    LateRepair,
    /// A repair may be given up when there is nothing left to repair.
    GiveUpWhole,
    /// A repair that widens goes anywhere.
    WidenTooFar,
    /// Leases are granted as configured: the log is told of none and bounds none.
    UnboundLease,
    /// A gang below its minimum gets back what there is room for.
    HalfRepair,
    /// What a node drives away is repaired task by task, as it ends.
    PiecewiseRepair,
    /// A job is called whole while its nodes still drive tasks of it away.
    EarlyWhole,
    /// Tasks are placed before the checks of their queue are ready.
    PlaceUnreserved,
    /// A report about an earlier round of admission counts for this one.
    StaleCheck,
    /// Quota stays reserved for jobs that are over or suspended.
    KeepReservation,
    /// The filters that a check brought outlive their round.
    KeepUpdates,
    /// A round goes on without its reservation.
    KeepRound,
    /// What is placed under a reservation is charged once more.
    ChargeReserved,
    /// Another attempt is made under the name of the one that failed.
    SameRequest,
    /// A provisioner asks the outside although it does not hold the duty.
    AskWithoutDuty,
    /// A provisioner asks twice under one duty.
    RequestTwice,
    /// The wait before another attempt does not end.
    EndlessBackOff,
    /// A second pass that failed is not tried again.
    DropSecondPass,
    /// A leader answers reads without asking the others whether it still leads.
    TrustOwnLead,
    /// A registration clears the hold-down of its node, and what led to it.
    ForgetHoldDown,
    /// Tasks are told to leave a node although no room is reserved for them.
    MoveUnawaited,
    /// Room for tasks that leave a node is reserved outside the domain of their group.
    MoveAstray,
    /// A repair gives each domain as many tasks of broken slices as it lacks, whichever these are.
    TearSlices,
    /// Conditions drive away what tolerates them too.
    MoveTolerated,
    /// Spares are held outside the domain of their group.
    SpareAstray,
    /// A repair looks for places without regard to the spares of its group.
    SpareUnused,
    /// Spares outlive their job.
    KeepSpares,
    /// New work takes room that is kept for a repair.
    TakeOwedRoom,
    /// What becomes free is not kept for the repair that claims it.
    ForgetClaims,
    /// Room stays kept for what a repair has placed.
    KeepEarmarks,
    /// A kept run that lives on and its replacement both stay.
    KeepBoth,
    /// Kept runs are not remembered: when their node is back they are stopped unasked.
    ForgetKept,
    /// Tasks that stayed are not told to start again with their job.
    RestartNobody,
    /// A start in place counts as the task's own failure.
    ChargeRestarts,
    /// Drains, moves and preemption stop tasks whatever their budgets say.
    IgnoreBudget,
    /// A rollout stops one task more than it may.
    RolloutBelow,
    /// What is lost while a rollout is under way is placed again as its target.
    RestoreAsTarget,
    /// What is told to stop gets its signal at once.
    StopAtOnce,
    /// Planners and the judge see half of what is left of a quota.
    HideQuota,
    /// Where room is held for others, the whole node is.
    HoldTooMuch,
    /// Runs start under a lease that is about to end them.
    StartLate,
    /// What ended with the lease of its node starts again at once.
    HurryFenced,
    /// A member whose log is gone comes back under its old number.
    ReturnAmnesiac,
    /// A log is opened although it lacks what was durable in it.
    TrustShortLog,
    /// Who names the session of health is believed to be health.
    BelieveStrangers,
    /// A server that begins to lead believes its wall clock.
    BelieveClocks,
    /// Nodes that were brought for a job are open to everybody.
    OpenBrought,
    /// A repair that finds no room asks nobody for nodes.
    ForgetRepairRequest,
    /// A repair asks again and again for the same nodes.
    RepeatRepairRequest,
    /// The labels of its flavors don't bind what has them.
    FlavorAstray,
    /// Quota by flavor is not looked at.
    OverlookFlavorQuota,
    /// Nobody becomes the head of a line.
    ForgetHeads,
    /// New work takes room that is promised to the head of a line.
    TakeHeadRoom,
    /// Room stays promised to heads that wait no more.
    KeepHeads,
    /// Quota is judged as if no other scheduler had earlier jobs of the queue.
    IgnoreTurns,
    /// Queues that let their jobs stop some let them stop anybody.
    PreemptWithoutRight,
    /// Jobs are stopped for another one that would have its quota without them, too.
    PreemptInVain,
    /// What victims give back is left to whoever asks for it first.
    ForgetPromisedQuota,
    /// Jobs of StrictFIFO queues start before those that come before them.
    IgnoreStrictOrder,
    /// Plans that were made before a queue was held still commit.
    StartInHeldQueue,
    /// A job for which others stopped in vain stops others again at once.
    PreemptAtOnce,
    /// What ends later than the head of a line is to start runs in its room, too.
    OutstayHead,
    /// A job is stopped as not ready in half the time that it has.
    HasteReadyTimeout,
    /// A job that was not ready in time is placed again at once.
    ForgetReadyBackOff,
    /// Checks that are for some flavors are asked for no job.
    ForgetFlavorChecks,
    /// What subqueues have consumed is never brought up to date: only what they use now counts.
    FreezeSubqueueUsage,
    /// Queues take jobs of all namespaces.
    TakeAnyNamespace,
    /// Namespaces go while jobs are in them.
    RemoveUsedNamespace,
}

impl Bug {
    /// Those that only several servers can show.
    pub const OF_GROUPS: [Bug; 1] = [Bug::TrustOwnLead];

    /// All others.
    pub const ALL: [Bug; 84] = [
        Bug::SkipFitCheck,
        Bug::AnswerBeforeSync,
        Bug::ForgetSessions,
        Bug::ApplyTwice,
        Bug::EarlyLoss,
        Bug::LongLease,
        Bug::CountGangTwice,
        Bug::UnorderedApply,
        Bug::IgnoreIncarnation,
        Bug::PlaceClosed,
        Bug::SkipTopology,
        Bug::SkipQuota,
        Bug::IgnoreCordon,
        Bug::KeepEndedRoom,
        Bug::WrongRefresh,
        Bug::ChargeLostNodes,
        Bug::StaleRepair,
        Bug::LateRepair,
        Bug::GiveUpWhole,
        Bug::WidenTooFar,
        Bug::UnboundLease,
        Bug::HalfRepair,
        Bug::PiecewiseRepair,
        Bug::EarlyWhole,
        Bug::ForgetHoldDown,
        Bug::PlaceUnreserved,
        Bug::StaleCheck,
        Bug::KeepReservation,
        Bug::KeepUpdates,
        Bug::KeepRound,
        Bug::ChargeReserved,
        Bug::SameRequest,
        Bug::AskWithoutDuty,
        Bug::RequestTwice,
        Bug::EndlessBackOff,
        Bug::DropSecondPass,
        Bug::KeepBoth,
        Bug::ForgetKept,
        Bug::MoveUnawaited,
        Bug::MoveAstray,
        Bug::TearSlices,
        Bug::MoveTolerated,
        Bug::SpareAstray,
        Bug::SpareUnused,
        Bug::KeepSpares,
        Bug::TakeOwedRoom,
        Bug::ForgetClaims,
        Bug::KeepEarmarks,
        Bug::RestartNobody,
        Bug::ChargeRestarts,
        Bug::IgnoreBudget,
        Bug::RolloutBelow,
        Bug::RestoreAsTarget,
        Bug::StopAtOnce,
        Bug::HideQuota,
        Bug::HoldTooMuch,
        Bug::StartLate,
        Bug::HurryFenced,
        Bug::ReturnAmnesiac,
        Bug::TrustShortLog,
        Bug::BelieveStrangers,
        Bug::BelieveClocks,
        Bug::OpenBrought,
        Bug::ForgetRepairRequest,
        Bug::RepeatRepairRequest,
        Bug::FlavorAstray,
        Bug::OverlookFlavorQuota,
        Bug::ForgetHeads,
        Bug::TakeHeadRoom,
        Bug::KeepHeads,
        Bug::IgnoreTurns,
        Bug::PreemptWithoutRight,
        Bug::PreemptInVain,
        Bug::ForgetPromisedQuota,
        Bug::IgnoreStrictOrder,
        Bug::StartInHeldQueue,
        Bug::PreemptAtOnce,
        Bug::OutstayHead,
        Bug::HasteReadyTimeout,
        Bug::ForgetReadyBackOff,
        Bug::ForgetFlavorChecks,
        Bug::FreezeSubqueueUsage,
        Bug::TakeAnyNamespace,
        Bug::RemoveUsedNamespace,
    ];
}

/// Whether planted bugs are compiled in at all.
pub const COMPILED: bool = cfg!(feature = "planted-bugs");

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<u8> = const { std::cell::Cell::new(0) };
}

/// Plants one bug in place of any other, or none, for what runs in this thread.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug.map_or(0, |bug| bug as u8));
}

/// Whether this bug is planted.
#[cfg(feature = "planted-bugs")]
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == bug as u8
}

/// Whether this bug is planted: never.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn is_planted(_: Bug) -> bool {
    false
}

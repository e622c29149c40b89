//! Job files: YAML or JSON in, well-formed specs out, and errors that say where and what would be right.
//!
//! ```text
//! bytes ──source──▶ trees with positions ──decode──▶ specs ──validate──▶ Vec<Result<Document, DocumentError>>
//!                                                     specs ──write────▶ YAML or JSON that reads back the same
//! ```
//! ```
//! let file = "apiVersion: ohm/v1\nkind: Job\nmetadata: {name: hello}\nspec: {cuont: 2, command: [echo, hello]}\n";
//! let verdicts = ohm_manifest::parse("hello.yaml", file.as_bytes());
//! let error = verdicts[0].as_ref().unwrap_err().to_string();
//! assert_eq!(error, "hello.yaml:4:8: spec: unknown field `cuont`; did you mean `count`?");
//! ```
//!
//! # Files
//!
//! A file is YAML (`.yaml`, `.yml`) or JSON (`.json`); under any other name it is JSON when it begins with `{` or
//! `[`. It holds any number of documents: in YAML between `---` lines, in JSON one after another, between
//! `---` lines, in a list, or as `items` of a `kind: List`; YAML takes lists, too. A document may be
//! [`DOCUMENT_BYTES_MAX`] long and [`DEPTH_MAX`] deep; a list of documents in JSON has no bound.
//! Each document gets its own verdict. Every document states
//! `apiVersion: ohm/v1`, a `kind` and, but for an Allocation, a `metadata.name`. Unknown fields are errors. A field
//! that is null is absent.
//!
//! A *name* is lower case letters, digits, `-` and `.` (253 at most; no dots and 63 in groups). A *quantity* is a
//! number with a unit: `2`, `500m`, `1.5`, `1e3`, `64Gi`. Requests are rounded up, room is rounded down: to
//! thousandths for `cpu` and for resources with a domain (`nvidia.com/gpu`), to whole bytes or pieces for the others.
//!
//! # Job
//!
//! | field of `spec` | value | default |
//! |---|---|---|
//! | `class` | `batch`, `service`, `tas`, or one of a SchedulingProfile | with a `topology` `tas`, else `batch` |
//! | `queue` | name of a Queue | none |
//! | `priority` | whole number, higher goes first | 0 |
//! | `priorityClassName` | name of a PriorityClass, instead of `priority`; it must be in the cell first | none |
//! | `preemptionPolicy` | `PreemptLowerPriority` or `Never`: whether others may be stopped for it | the former |
//! | `preemptible` | false: it is not stopped for others | true |
//! | `retries` | how often a task may fail by itself | 0 |
//! | `activeDeadlineSeconds` | the job fails after this long | no bound |
//! | `pendingTimeoutSeconds` | the job fails when it has waited this long, with nothing of it standing | no bound |
//! | `ttlSecondsAfterFinished` | the finished job is forgotten after this long, ten seconds at least | 86400 |
//! | `onDisconnect` | `stop` or `keep`: tasks on a node that lost its servers; and see below | service `keep`, else
//! `stop` |
//! | `suspend` | true: not to be placed yet | false |
//! | `strategy` | of services: how they get from one revision to the next; and see below | as of a Deployment |
//! | `groups` | list of groups; a job with one group may write its fields here instead | |
//!
//! | field of a group | value | default |
//! |---|---|---|
//! | `name` | name, unique in the job | `main` |
//! | `count` | how many tasks, 1 to 1000000 | 1 |
//! | `array` | N, instead of `count: N, minCount: 1, elastic: true` | |
//! | `minCount` | starts with at least this many, or not at all | service 1, else `count` |
//! | `elastic` | true: grows after its start, as room comes | service true, else false |
//! | `requests` | quantities by resource, reserved for each task; also under `resources` | its `limits` |
//! | `limits` | the most of each, at least the request; also under `resources` | memory: the request |
//! | `ports` | list of host ports of each task: a number, or `{hostPort, protocol: TCP | UDP | SCTP, hostIP}` | none |
//! | `maxPerNode` | most tasks of the group on one node | no limit |
//! | `spares` | room for so many more tasks is held once it stands, for lost ones; not for arrays or slices | 0 |
//! | `spread` | true: over as many nodes as possible; false: on as few | service true, else false |
//! | `nodeSelector` | labels the node must have | none |
//! | `affinity.nodeAffinity` | as in Kubernetes, with `matchExpressions` | none |
//! | `tolerations` | list of `key`, `operator`, `value`, `effect`, `tolerationSeconds`, as in Kubernetes | none |
//! | `topology` | one of `required: LEVEL`, `preferred: LEVEL`, `unconstrained: true`; and see below | none |
//! | `disruptionBudget` | `minAvailable` or `maxUnavailable` of its tasks, as of a Budget | none |
//! | `placeWith` | groups with the same word are placed in one domain | none |
//! | `command`, `args` | lists of words: the program and its arguments | none |
//! | `env` | list of `name`, `value`, which may hold `$(OHM_RANK)` and the like; names with `OHM_` are Ohm's | none |
//! | `workingDir` | where tasks start | the run's own folder |
//! | `stopDelaySeconds` | from the end as an endpoint to the polite signal; a day at most | 2 with `ports`, else 0 |
//! | `terminationGracePeriodSeconds` | between the polite signal and the kill; a day at most | 10 |
//! | `startupProbe`, `readinessProbe` | as in Kubernetes: `exec`, `httpGet` or `tcpSocket`, times, thresholds | none |
//! | `livenessProbe` | the same; it and `startupProbe` have a `terminationGracePeriodSeconds` | none |
//! | `onUnhealthy` | whether what a probe ends is charged to `retries`: `Count` or `Ignore` | `Count` |
//! | `sim` | on simulated nodes: `duration` (`30s`) and `exitCode` | never ends, 0 |
//! | `sim` besides | how tasks answer probes: `readyAfter`, `unreadyAfter`, `unreadyFor`, `unhealthyAfter` | well |
//!
//! `onDisconnect: {policy: keep, reconcile: RULE}` says which of two runs lives on when the node is back and the task
//! was placed anew meanwhile: `newer` (the default: the replacement), `original` or `longestRunning`.
//!
//! `strategy` is what a Deployment has, in one map: `type` is `RollingUpdate` (the default) or `Recreate`; `maxSurge`
//! and `maxUnavailable` are a number of tasks or a share of the count (25 % unless said); `minReadySeconds` (0) is how
//! long a task is ready before it counts as available; `progressDeadlineSeconds` (600; 0 is never) is how long a
//! rollout comes no further before it has stalled. `autoRevert: true` takes one that stalls back, `canary: N` tries N
//! tasks of the new revision until somebody promotes it, and `pause: true` replaces nothing.
//!
//! For `ohm plan` the `metadata` of a Job may have a `creationTimestamp` (RFC 3339), which is its age; jobs without one
//! are the oldest.
//!
//! A `topology` has a `name`, where the cell has several, and for `ohm plan` `slices` (list of `level`, `size`) and
//! `balanced`. The fields from `requests` on that say what a task is may stand under `template` as well.
//!
//! # What describes a cell
//!
//! | kind | fields |
//! |---|---|
//! | Topology | `spec.levels`: list of `nodeLabel`, coarse to fine, 1 to 16 |
//! | Queue | `cohort`, `nominalQuota`, `borrowingLimit`, `lendingLimit` (by resource), `fairSharing.weight` |
//! | Queue besides | `resourceGroups`, instead of the quota by resource, and `flavorFungibility`; see below |
//! | Queue besides | `preemption`: `withinClusterQueue`, `reclaimWithinCohort`, `borrowWithinCohort`; see below |
//! | Queue besides | `preemption.outsideRoot`: `LowerPriority` lets more important jobs of others in; `Never` |
//! | Queue besides | `admissionChecks`: classes that must say yes before its jobs are placed; see below |
//! | Queue besides | `stopPolicy`: `None` (the default), `Hold` (nothing starts), `HoldAndDrain` (what runs stops) |
//! | Queue besides | `maxWaitingJobs`: while so many wait, a submit of one more is refused; no bound unless said |
//! | Queue besides | `readyTimeout`: `timeoutSeconds`, `recoveryTimeoutSeconds` in which what is placed must run |
//! | `readyTimeout` besides | `backoffBaseSeconds` (60), `backoffMaxSeconds` (3600), `backoffLimit` (no bound) |
//! | Queue besides | `minRuntimeSeconds`: for so long after its start no job of another queue has one of it stopped |
//! | Queue besides | `usageBasedOrder`: `halfLifeSeconds`, `resourceWeights`: who has used least comes first; below |
//! | Queue besides | `namespaces`: the names of those whose jobs may wait in it; those of all unless said |
//! | Subqueue | `queue`, `fairSharing.weight` (1 unless said; or `weight`): a part of a queue that jobs may name |
//! | Cohort | as Queue, with `parent` for `cohort`, `resourceGroups`, and nothing else of what Queues have besides |
//! | ResourceFlavor | `nodeLabels`, `nodeTaints`, `tolerations` (as those of a Node and a group); 8 of each at most |
//! | Scheduling | `fairSharing`: `enable`, `preemptionStrategies`; one for the cell, called `default`; see below |
//! | Namespace | `metadata.labels`; jobs are in one (`metadata.namespace`), in `default` unless they say so |
//! | Budget | `selector` (of labels of groups), `minAvailable` or `maxUnavailable`; see below |
//! | PriorityClass | `value`, `description`, `preemptionPolicy` as of a job (all beside `metadata`) |
//! | PriorityClass besides | `globalDefault`: jobs that name neither a class nor a priority get it; one class at most |
//! | ProvisioningClass | `provisioner`: `command`, `webhook` (with `url`) or `sim`; `parameters`; see below |
//! | SchedulingProfile | `class` (else its name), `like`, `base`, `scores`, `conflicts` and more; see below |
//! | Node | `metadata.labels`; `spec`: `taints`, `unschedulable`; `status`: see below |
//! | Allocation | `spec`: `job`, `group` (default `main`), `node`, `count`: tasks that run already |
//! | Allocation besides | `flavors` (by resource; else those whose labels the node has), `reservedAt` (RFC 3339; else
//! before all others), `evicting` (true: they are being stopped) |
//!
//! The `status` of a Node has `allocatable` or `capacity`, `used` (what others take, Allocations not included),
//! `conditions` (`Ready` counts) and `addresses` (`InternalIP` counts).
//!
//! A ProvisioningClass has `retry` (`baseSeconds` 60, `factor` 2, `maxSeconds` 1800, `limit` 3), and `bookingSeconds`,
//! `timeoutSeconds`, `watchSeconds` (0, which is without end or never), `callTimeoutSeconds` (60), `pollSeconds` (5).
//!
//! The `admissionChecks` of a Queue are names of classes, or `{name, onFlavors}`: with `onFlavors` (flavors
//! of its `resourceGroups`) a check is asked for jobs only that get one of these in any group, for any resource; else
//! for all jobs. `admissionChecksStrategy: {admissionChecks: […]}`, as a ClusterQueue has it, is the same.
//!
//! The `resourceGroups` of a Queue or Cohort give quota by flavor, in the words of Kueue: list of `coveredResources`
//! (names) and `flavors` (list of `name` and `resources`: list of `name`, `nominalQuota`, `borrowingLimit`,
//! `lendingLimit`). A task gets all that a group covers from one flavor of it. Each flavor gives quota for exactly what
//! its group covers. Jobs that ask for what no group covers are not placed. `flavorFungibility` says which flavor is
//! taken where several would do: `whenCanBorrow` is `MayStopSearch` (the default) or `TryNextFlavor`, `whenCanPreempt`
//! (for a flavor that suits once others were stopped) `TryNextFlavor` (the default) or `MayStopSearch`; `preference` is
//! `BorrowingOverPreemption` (the default) or `PreemptionOverBorrowing`. More quota than 64 bits can count is no limit.
//! The `queueingStrategy` of a Queue is `BestEffortFIFO` (the default: behind a job that finds no place the next ones
//! are looked at) or `StrictFIFO` (no job starts before one that comes before it, by priority, then by age).
//!
//! With `usageBasedOrder` the jobs of a Queue come in the order of what their Subqueues have used, for their weights,
//! and only then by priority and age. What was used counts half after `halfLifeSeconds` (0: only what is used now
//! counts). `resourceWeights` says what a core, a device, a GiB of memory or storage, or a piece of anything else
//! counts: 1 unless said, `pods` 0. Jobs that name the queue itself are one more part, of weight 1; one of weight 0
//! comes last. Kueue's LocalQueue is read as a Subqueue.
//!
//! A Budget says how many tasks stay healthy while somebody stops tasks that could run on: a drain, a move, preemption.
//! It is about the tasks of its namespace (`metadata.namespace`) whose groups have labels that the `selector`
//! (`matchLabels`, `matchExpressions`) means. `minAvailable` is how many must be healthy, `maxUnavailable` how many may
//! not be: a number, or a share of those that are to run, rounded up. `unhealthyPodEvictionPolicy` says whether tasks
//! that are not healthy may be stopped: `IfHealthyBudget` (the default), while as many others are healthy as must be,
//! or `AlwaysAllow`. What is lost with its node counts as not healthy. Kubernetes' PodDisruptionBudget is read as a
//! Budget.
//!
//! The cohort that a Queue or Cohort names need not have a document: then it exists without quota.
//!
//! The `preemption` of a Queue says whom its jobs may stop where they lack quota: `withinClusterQueue` jobs of the
//! queue itself (`Never`, `LowerPriority` or `LowerOrNewerEqualPriority`), `reclaimWithinCohort` those of queues that
//! use more than their own (`Never`, `LowerPriority` or `Any`), `borrowWithinCohort` those also while the queue itself
//! borrows (`policy`: `Never` or `LowerPriority`, which needs a `reclaimWithinCohort` other than `Never`;
//! `maxPriorityThreshold`: none above it). All are `Never` unless said.
//!
//! With `fairSharing.enable: true` of the Scheduling, shares decide who stops jobs of another queue:
//! `preemptionStrategies` is one or both of `LessThanOrEqualToFinalShare` and `LessThanInitialShare` (the default:
//! both, in this order). The share of a queue is what it borrows of what its cohort can lend, divided by its weight.
//!
//! The `fairSharing.weight` (0 to 1000000000, 1 unless said) of a Queue is its share of what starts while there is less
//! room than work, in parts of the cell and not of jobs, beside the other queues of its cohort (and beside all that the
//! same scheduler plans).
//!
//! A SchedulingProfile says how the jobs of a class are planned, and makes a class known. `like` is `batch` (the
//! default), `service` or `tas`: what the jobs of the class leave out is as in that class. `scores` is a list of `name`
//! and `weight` (0 to 100, 1 unless said; 0 switches it off), `pluginConfig` a list of `name` and `args`, with the
//! names and arguments of kube-scheduler. `base` is the set of scores to begin with: `default`, `kubernetes`, `packing`
//! or `spreading`; without it the `scores` are all that count, and without both it is `default`. `kubernetes` is what
//! kube-scheduler counts by default, but for ImageLocality; `packing` leaves the fewest devices
//! idle; what `scores` and `pluginConfig` say counts in place of what the set says. NodeResourcesFit takes
//! `scoringStrategy.type` (`MostAllocated`, `LeastAllocated` or, the default, `ByGroup`: as the group packs or
//! spreads), PodTopologySpread `defaultConstraints`: list of `topologyKey`, for groups that name no constraints
//! themselves; a level that no topology has counts for nothing. `conflicts` says when a placement collides with what
//! others did to the node meanwhile: when it does not fit any more (`fit`, the default), or when anything about the
//! node has changed (`version`). `headPatienceSeconds` (30)
//! says how long a job waits for room before what becomes free where it is to stand is kept for it, one job of each
//! queue at a time.
//!
//! Where objects of Kubernetes are read, the `scores` may name ImageLocality, and `pluginConfig`
//! the other arguments of kube-scheduler: those of NodeResourcesFit, NodeResourcesBalancedAllocation (`resources`),
//! NodeAffinity (`addedAffinity`) and InterPodAffinity. What planners make of them stands at [`Plugins`]. With `base:
//! kubernetes` it is reported with the weight that kube-scheduler has for it.
//!
//! # Kubernetes
//!
//! Deployments, StatefulSets, Jobs, JobSets, PriorityClasses and PodDisruptionBudgets of Kubernetes are read as well,
//! as what they are here; see [`kubernetes`]. What they say and cannot be had is an error at its field. With
//! [`Dialect::Kubernetes`], which is what `ohm plan` reads, more objects are, and only what bears on where pods go
//! counts; what of that nothing honours is named in [`KubernetesObject::ignored`]. [`Dialect::KubernetesInFull`] keeps
//! what only reports are made from besides ([`Aside`]). Fields that their API does not have are errors in any case.
//!
//! Invariants: no input panics or overflows the stack; what is accepted obeys [`validate`]; nothing that was written
//! is dropped in silence.

mod aside;
mod decode;
mod defaults;
mod document;
mod error;
mod hints;
mod kinds;
pub mod kubernetes;
mod limits;
mod parse;
mod path;
mod plugins;
mod quantity;
mod source;
mod text;
mod time;
mod tree;
pub mod validate;
mod write;

pub use aside::{Aside, CPU_UNNAMED_MILLI, MEMORY_UNNAMED_BYTES, NodeImage, PodOutline};
pub use defaults::LeftOpen;
pub use document::{
    API_VERSION, Allocation, Content, Dialect, Document, Ignored, KubernetesObject, Named, NamedKind, NodeDocument, Pod,
};
pub use error::{DocumentError, Origin, Position, Problem, ProblemKind};
pub use limits::{
    ALIAS_NODES_MAX, BROKEN_MAX, DEPTH_MAX, DOCUMENT_BYTES_MAX, FLAVOR_PARTS_MAX, PROBLEMS_MAX, WEIGHT_MILLI_MAX,
};
pub use parse::{Input, Tail, Verdicts, middle, parse, parse_each, parse_files, parse_inputs, parse_tail};
pub use path::{FieldPath, Step};
pub use plugins::{
    AddedAffinity, BalancedArguments, FitArguments, FitScoring, NeighbourArguments, Plugins, REPORTED_SCORES,
};
pub use quantity::{QuantityError, Rounding, parse as parse_quantity};
pub use text::nearest;
pub use write::{WriteError, document, to_json, to_yaml};

//! What the API of Kubernetes has: one table per type, with what its fields have to do with where pods go.

/// A type of the API.
pub(super) struct Type {
    /// What the API calls it.
    pub(super) name: &'static str,
    /// Fields that have no bearing on where pods go, in one text.
    pub(super) aside: &'static str,
    /// All others.
    pub(super) fields: &'static [Field],
}

impl Type {
    pub(super) fn is_aside(&self, name: &str) -> bool {
        self.aside.split_ascii_whitespace().any(|aside| aside == name)
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The names of all fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.aside.split_ascii_whitespace().chain(self.fields.iter().map(|field| field.name))
    }
}

/// A field that bears on where pods go.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// Whether it matters for a pod that stands already, too.
    pub(super) of_standing: bool,
    /// The value that asks for nothing, as written.
    pub(super) default: Option<&'static str>,
    pub(super) shape: Shape,
}

/// What is in a field.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// A value that is read whole or not at all.
    Whole,
    /// An object.
    One(&'static Type),
    /// A list of objects.
    Many(&'static Type),
    /// Labels or annotations: of these only such matter as schedulers read ([`is_for_schedulers`]).
    Notes,
}

impl Field {
    const fn default(self, default: &'static str) -> Field {
        Field { default: Some(default), ..self }
    }

    const fn one(self, of: &'static Type) -> Field {
        Field { shape: Shape::One(of), ..self }
    }

    const fn many(self, of: &'static Type) -> Field {
        Field { shape: Shape::Many(of), ..self }
    }
}

/// A field that matters wherever it stands.
const fn field(name: &'static str) -> Field {
    Field { name, of_standing: true, default: None, shape: Shape::Whole }
}

/// A field that matters only where a place is still to be found.
const fn placing(name: &'static str) -> Field {
    Field { of_standing: false, ..field(name) }
}

const fn notes(name: &'static str) -> Field {
    Field { shape: Shape::Notes, ..field(name) }
}

/// Beginnings of the labels and annotations that schedulers read.
const FOR_SCHEDULERS: [&str; 6] = [
    "alpha.jobset.sigs.k8s.io/",
    "kueue.x-k8s.io/",
    "scheduling.k8s.io/",
    "scheduling.volcano.sh/",
    "scheduling.x-k8s.io/",
    "volcano.sh/",
];

/// Whether a label or an annotation is for schedulers.
pub(super) fn is_for_schedulers(key: &str) -> bool {
    FOR_SCHEDULERS.iter().any(|beginning| key.starts_with(beginning))
}

pub(super) static NODE: Type = Type {
    name: "Node",
    aside: "apiVersion kind",
    fields: &[field("metadata").one(&PLAIN_META), field("spec").one(&NODE_SPEC), field("status").one(&NODE_STATUS)],
};

pub(super) static POD: Type = Type {
    name: "Pod",
    aside: "apiVersion kind status",
    fields: &[field("metadata").one(&PLAIN_META), field("spec").one(&POD_SPEC)],
};

pub(super) static JOB: Type = Type {
    name: "Job",
    aside: "apiVersion kind status",
    fields: &[field("metadata").one(&JOB_META), field("spec").one(&JOB_SPEC)],
};

pub(super) static JOB_SET: Type = Type {
    name: "JobSet",
    aside: "apiVersion kind status",
    fields: &[field("metadata").one(&JOB_META), field("spec").one(&JOB_SET_SPEC)],
};

pub(super) static DEPLOYMENT: Type = Type {
    name: "Deployment",
    aside: "apiVersion kind status",
    fields: &[field("metadata").one(&JOB_META), field("spec").one(&DEPLOYMENT_SPEC)],
};

pub(super) static STATEFUL_SET: Type = Type {
    name: "StatefulSet",
    aside: "apiVersion kind status",
    fields: &[field("metadata").one(&JOB_META), field("spec").one(&STATEFUL_SET_SPEC)],
};

pub(super) static TOPOLOGY: Type = Type {
    name: "Topology",
    aside: "apiVersion kind status",
    fields: &[field("metadata").one(&PLAIN_META), field("spec").one(&TOPOLOGY_SPEC)],
};

pub(super) static LOCAL_QUEUE: Type = Type {
    name: "LocalQueue",
    aside: "apiVersion kind status",
    fields: &[field("metadata").one(&PLAIN_META), field("spec").one(&LOCAL_QUEUE_SPEC)],
};

pub(super) static NAMESPACE: Type =
    Type { name: "Namespace", aside: "apiVersion kind spec status", fields: &[field("metadata").one(&PLAIN_META)] };

pub(super) static PRIORITY_CLASS: Type = Type {
    name: "PriorityClass",
    aside: "apiVersion kind description",
    fields: &[
        field("metadata").one(&PLAIN_META),
        field("value"),
        field("globalDefault"),
        field("preemptionPolicy").default("PreemptLowerPriority"),
    ],
};

pub(super) static POD_DISRUPTION_BUDGET: Type = Type {
    name: "PodDisruptionBudget",
    aside: "apiVersion kind status",
    fields: &[field("metadata").one(&PLAIN_META), field("spec").one(&BUDGET_SPEC)],
};

static BUDGET_SPEC: Type = Type {
    name: "PodDisruptionBudgetSpec",
    aside: "",
    fields: &[
        field("maxUnavailable"),
        field("minAvailable"),
        field("selector").one(&LABEL_SELECTOR),
        field("unhealthyPodEvictionPolicy").default("IfHealthyBudget"),
    ],
};

/// The metadata of what is no work: its labels are data.
static PLAIN_META: Type = Type {
    name: "ObjectMeta",
    aside: "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation \
            labels managedFields name namespace ownerReferences resourceVersion selfLink uid",
    fields: &[],
};

/// The metadata of work: schedulers are spoken to in its labels and annotations.
static JOB_META: Type = Type {
    name: "ObjectMeta",
    aside: "creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation \
            managedFields name namespace ownerReferences resourceVersion selfLink uid",
    fields: &[notes("annotations"), notes("labels")],
};

static NODE_SPEC: Type = Type {
    name: "NodeSpec",
    aside: "configSource externalID podCIDR podCIDRs providerID",
    fields: &[field("taints").many(&TAINT), field("unschedulable").default("false")],
};

static TAINT: Type =
    Type { name: "Taint", aside: "timeAdded", fields: &[field("effect"), field("key"), field("value")] };

/// `used` is ours: what others take.
static NODE_STATUS: Type = Type {
    name: "NodeStatus",
    aside: "capacity config daemonEndpoints declaredFeatures features images nodeInfo phase runtimeHandlers \
            volumesAttached volumesInUse",
    fields: &[field("addresses"), field("allocatable"), field("conditions"), field("used")],
};

static TOPOLOGY_SPEC: Type = Type { name: "TopologySpec", aside: "", fields: &[field("levels").many(&TOPOLOGY_LEVEL)] };

static LOCAL_QUEUE_SPEC: Type = Type {
    name: "LocalQueueSpec",
    aside: "",
    fields: &[field("clusterQueue"), field("stopPolicy").default("None"), field("fairSharing").one(&FAIR_SHARING)],
};

static FAIR_SHARING: Type = Type { name: "FairSharing", aside: "", fields: &[field("weight")] };

static TOPOLOGY_LEVEL: Type = Type { name: "TopologyLevel", aside: "", fields: &[field("nodeLabel")] };

static JOB_SET_SPEC: Type = Type {
    name: "JobSetSpec",
    aside: "coordinator failurePolicy managedBy network successPolicy suspend ttlSecondsAfterFinished \
            volumeClaimPolicies",
    fields: &[field("replicatedJobs").many(&REPLICATED_JOB), field("startupPolicy")],
};

static REPLICATED_JOB: Type = Type {
    name: "ReplicatedJob",
    aside: "groupName",
    fields: &[field("name"), field("replicas"), field("dependsOn"), field("template").one(&JOB_TEMPLATE)],
};

static JOB_TEMPLATE: Type = Type {
    name: "JobTemplateSpec",
    aside: "",
    fields: &[field("metadata").one(&JOB_META), field("spec").one(&JOB_SPEC)],
};

static JOB_SPEC: Type = Type {
    name: "JobSpec",
    aside: "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode managedBy manualSelector \
            maxFailedIndexes podFailurePolicy podReplacementPolicy selector successPolicy suspend \
            ttlSecondsAfterFinished",
    fields: &[field("completions"), field("parallelism"), field("template").one(&POD_TEMPLATE)],
};

static DEPLOYMENT_SPEC: Type = Type {
    name: "DeploymentSpec",
    aside: "minReadySeconds paused progressDeadlineSeconds revisionHistoryLimit",
    fields: &[
        field("replicas"),
        field("selector").one(&LABEL_SELECTOR),
        field("strategy").one(&DEPLOYMENT_STRATEGY),
        field("template").one(&POD_TEMPLATE),
    ],
};

static STATEFUL_SET_SPEC: Type = Type {
    name: "StatefulSetSpec",
    aside: "minReadySeconds persistentVolumeClaimRetentionPolicy podManagementPolicy revisionHistoryLimit serviceName \
            volumeClaimTemplates",
    fields: &[
        field("ordinals").one(&ORDINALS),
        field("replicas"),
        field("selector").one(&LABEL_SELECTOR),
        field("template").one(&POD_TEMPLATE),
        field("updateStrategy").one(&STATEFUL_SET_STRATEGY),
    ],
};

static ORDINALS: Type = Type { name: "StatefulSetOrdinals", aside: "start", fields: &[] };

static DEPLOYMENT_STRATEGY: Type =
    Type { name: "DeploymentStrategy", aside: "type", fields: &[field("rollingUpdate").one(&ROLLING_DEPLOYMENT)] };

static ROLLING_DEPLOYMENT: Type =
    Type { name: "RollingUpdateDeployment", aside: "maxSurge maxUnavailable", fields: &[] };

static STATEFUL_SET_STRATEGY: Type = Type {
    name: "StatefulSetUpdateStrategy",
    aside: "type",
    fields: &[field("rollingUpdate").one(&ROLLING_STATEFUL_SET)],
};

static ROLLING_STATEFUL_SET: Type =
    Type { name: "RollingUpdateStatefulSetStrategy", aside: "maxUnavailable partition", fields: &[] };

static POD_TEMPLATE: Type = Type {
    name: "PodTemplateSpec",
    aside: "",
    fields: &[field("metadata").one(&JOB_META), field("spec").one(&POD_SPEC)],
};

static POD_SPEC: Type = Type {
    name: "PodSpec",
    aside: "activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks \
            ephemeralContainers hostAliases hostIPC hostPID hostUsers hostname hostnameOverride imagePullSecrets os \
            readinessGates restartPolicy securityContext serviceAccount serviceAccountName setHostnameAsFQDN \
            shareProcessNamespace subdomain terminationGracePeriodSeconds",
    fields: &[
        field("affinity").one(&AFFINITY),
        field("containers").many(&CONTAINER),
        field("initContainers").many(&CONTAINER),
        field("nodeName"),
        field("overhead"),
        field("resourceClaims"),
        field("resources").one(&RESOURCES),
        placing("hostNetwork").default("false"),
        placing("nodeSelector"),
        placing("preemptionPolicy").default("PreemptLowerPriority"),
        placing("priority").default("0"),
        placing("priorityClassName"),
        placing("runtimeClassName"),
        placing("schedulerName").default("default-scheduler"),
        placing("schedulingGates"),
        placing("tolerations").many(&TOLERATION),
        placing("topologySpreadConstraints").many(&SPREAD_CONSTRAINT),
        placing("volumes").many(&VOLUME),
        placing("workloadRef"),
    ],
};

static CONTAINER: Type = Type {
    name: "Container",
    aside: "args command env envFrom image imagePullPolicy lifecycle livenessProbe name readinessProbe resizePolicy \
            restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath \
            terminationMessagePolicy tty volumeDevices volumeMounts workingDir",
    fields: &[field("ports").many(&CONTAINER_PORT), field("resources").one(&RESOURCES)],
};

static CONTAINER_PORT: Type = Type {
    name: "ContainerPort",
    aside: "containerPort name",
    fields: &[field("hostPort").default("0"), placing("hostIP"), placing("protocol").default("TCP")],
};

static RESOURCES: Type =
    Type { name: "ResourceRequirements", aside: "", fields: &[field("claims"), field("limits"), field("requests")] };

static AFFINITY: Type = Type {
    name: "Affinity",
    aside: "",
    fields: &[
        placing("nodeAffinity").one(&NODE_AFFINITY),
        field("podAffinity").one(&POD_AFFINITY),
        field("podAntiAffinity").one(&POD_AFFINITY),
    ],
};

static POD_AFFINITY: Type = Type {
    name: "PodAffinity",
    aside: "",
    fields: &[
        field("requiredDuringSchedulingIgnoredDuringExecution").many(&POD_AFFINITY_TERM),
        field("preferredDuringSchedulingIgnoredDuringExecution").many(&WEIGHTED_TERM),
    ],
};

static WEIGHTED_TERM: Type = Type {
    name: "WeightedPodAffinityTerm",
    aside: "",
    fields: &[field("weight"), field("podAffinityTerm").one(&POD_AFFINITY_TERM)],
};

static POD_AFFINITY_TERM: Type = Type {
    name: "PodAffinityTerm",
    aside: "",
    fields: &[
        field("labelSelector").one(&LABEL_SELECTOR),
        field("matchLabelKeys"),
        field("mismatchLabelKeys"),
        field("namespaceSelector").one(&LABEL_SELECTOR),
        field("namespaces"),
        field("topologyKey"),
    ],
};

static LABEL_SELECTOR: Type = Type {
    name: "LabelSelector",
    aside: "",
    fields: &[field("matchExpressions").many(&REQUIREMENT), field("matchLabels")],
};

static SPREAD_CONSTRAINT: Type = Type {
    name: "TopologySpreadConstraint",
    aside: "",
    fields: &[
        field("labelSelector").one(&LABEL_SELECTOR),
        field("matchLabelKeys"),
        field("maxSkew"),
        field("minDomains"),
        field("nodeAffinityPolicy"),
        field("nodeTaintsPolicy"),
        field("topologyKey"),
        field("whenUnsatisfiable"),
    ],
};

static NODE_AFFINITY: Type = Type {
    name: "NodeAffinity",
    aside: "",
    fields: &[
        field("requiredDuringSchedulingIgnoredDuringExecution").one(&NODE_SELECTOR),
        field("preferredDuringSchedulingIgnoredDuringExecution").many(&PREFERRED_TERM),
    ],
};

static NODE_SELECTOR: Type =
    Type { name: "NodeSelector", aside: "", fields: &[field("nodeSelectorTerms").many(&SELECTOR_TERM)] };

static PREFERRED_TERM: Type = Type {
    name: "PreferredSchedulingTerm",
    aside: "",
    fields: &[field("weight"), field("preference").one(&SELECTOR_TERM)],
};

static SELECTOR_TERM: Type = Type {
    name: "NodeSelectorTerm",
    aside: "",
    fields: &[field("matchExpressions").many(&REQUIREMENT), field("matchFields")],
};

static REQUIREMENT: Type =
    Type { name: "NodeSelectorRequirement", aside: "", fields: &[field("key"), field("operator"), field("values")] };

static TOLERATION: Type = Type {
    name: "Toleration",
    aside: "",
    fields: &[field("effect"), field("key"), field("operator"), field("tolerationSeconds"), field("value")],
};

/// Volumes that a node brings itself bear on nothing; those that are attached may be only where they can be.
static VOLUME: Type = Type {
    name: "Volume",
    aside: "cephfs configMap csi downwardAPI emptyDir flocker gitRepo glusterfs hostPath image name nfs projected \
            quobyte secret",
    fields: &[
        field("awsElasticBlockStore"),
        field("azureDisk"),
        field("azureFile"),
        field("cinder"),
        field("ephemeral"),
        field("fc"),
        field("flexVolume"),
        field("gcePersistentDisk"),
        field("iscsi"),
        field("persistentVolumeClaim"),
        field("photonPersistentDisk"),
        field("portworxVolume"),
        field("rbd"),
        field("scaleIO"),
        field("storageos"),
        field("vsphereVolume"),
    ],
};

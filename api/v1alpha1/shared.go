package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Labels and annotations that the platform sets.
const (
	LabelOrganization = "plasmacloud.io/org-id"
	LabelProject      = "plasmacloud.io/project-id"
	LabelTenantType   = "plasmacloud.io/tenant-type"
	LabelCluster      = "plasmacloud.io/cluster"
	LabelNodeGroup    = "plasmacloud.io/node-group"
	LabelMachine      = "plasmacloud.io/machine"
	LabelResource     = "plasmacloud.io/resource"

	AnnotationProjectName = "plasmacloud.io/project-name"
	AnnotationCreatedBy   = "plasmacloud.io/created-by"
	// AnnotationRepair asks for a repair; its value is a RepairRequest, or any other new text.
	AnnotationRepair = "plasmacloud.io/repair"
	// AnnotationRotateSSHKey on a Cluster asks for a new key to its machines; its value is any new text.
	AnnotationRotateSSHKey = "plasmacloud.io/rotate-ssh-key"
	// AnnotationForce lets a deletion go on without what is lost already.
	AnnotationForce = "plasmacloud.io/force"
	// AnnotationConsent names what a change of infrastructure in a cloud may replace or destroy although that loses
	// something: addresses of resources as a plan shows them, separated by commas, or * for all.
	AnnotationConsent = "plasmacloud.io/consent"
	// AnnotationPlan asks what a change would do to infrastructure in a cloud; its value is a PlanRequest.
	AnnotationPlan = "plasmacloud.io/plan"
	// AnnotationForget lets a resource in a cloud be deleted from the platform's record alone: everything that was made stays
	// in the cloud, and is the customer's to remove. Its value is the resource's own name, which is the consent to that.
	AnnotationForget = "plasmacloud.io/forget"
	// AnnotationVerify on an Account asks for a look at its credentials at once; its value is any new text.
	AnnotationVerify = "plasmacloud.io/verify"
	// AnnotationCancel on a Task asks its worker to stop at the end of the step that runs.
	AnnotationCancel = "plasmacloud.io/cancel"

	// Finalizer keeps a resource until what it made is gone.
	Finalizer = "plasmacloud.io/cleanup"
)

// NamespacePrefix is followed by a project's name in the name of its namespace.
const NamespacePrefix = "project-"

// Condition types that kinds share.
const (
	// ConditionReady is True when the resource does its job.
	ConditionReady = "Ready"
	// ConditionProgressing is True while a task changes the resource.
	ConditionProgressing = "Progressing"
	// ConditionStalled is True when nothing more will happen until a person acts; its message says what to do.
	ConditionStalled = "Stalled"
	// ConditionHealthy is True when audits find nothing wrong with a cluster.
	ConditionHealthy = "Healthy"
)

// Reasons of the shared conditions.
const (
	ReasonReady          = "Ready"
	ReasonProvisioning   = "Provisioning"
	ReasonUpdating       = "Updating"
	ReasonDeleting       = "Deleting"
	ReasonTaskRunning    = "TaskRunning"
	ReasonTaskFailed     = "TaskFailed"
	ReasonTaskRetried    = "TaskRetried"
	ReasonWaiting        = "Waiting"
	ReasonParentMissing  = "ParentMissing"
	ReasonParentNotReady = "ParentNotReady"
	ReasonHasChildren    = "HasChildren"
	ReasonQuotaExceeded  = "QuotaExceeded"
	ReasonUnsupported    = "Unsupported"
)

// Phase is where a resource is in its life, in one word.
// +kubebuilder:validation:Enum=PENDING;PROVISIONING;RUNNING;UPDATING;REPAIRING;DELETING;FAILED
type Phase string

// The phases.
const (
	PhasePending      Phase = "PENDING"
	PhaseProvisioning Phase = "PROVISIONING"
	PhaseRunning      Phase = "RUNNING"
	PhaseUpdating     Phase = "UPDATING"
	PhaseRepairing    Phase = "REPAIRING"
	PhaseDeleting     Phase = "DELETING"
	PhaseFailed       Phase = "FAILED"
)

// Resources are CPU and memory.
type Resources struct {
	// CPU that is available, such as 2 or 500m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : !self.startsWith('-') && (!self.startsWith('0') || self.startsWith('0.'))",message="it has to be more than nothing, such as 2 or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory (RAM) that is available, such as 4Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : !self.startsWith('-') && (!self.startsWith('0') || self.startsWith('0.'))",message="it has to be more than nothing, such as 4Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// SecretReference names a key of a Secret in the same namespace.
type SecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key within the Secret; each provider has its own default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

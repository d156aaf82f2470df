package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Operation is what a task does to its resource.
// +kubebuilder:validation:Enum=Create;Update;Scale;Upgrade;Repair;Delete;Plan
type Operation string

// The operations.
const (
	OperationCreate  Operation = "Create"
	OperationUpdate  Operation = "Update"
	OperationScale   Operation = "Scale"
	OperationUpgrade Operation = "Upgrade"
	OperationRepair  Operation = "Repair"
	OperationDelete  Operation = "Delete"
	OperationPlan    Operation = "Plan" // only tells what another one would do
)

// Changes tells whether the operation is done to change something, and not only to look.
func (o Operation) Changes() bool { return o != OperationPlan }

// ResourceReference names the resource that a task works on, in the task's own namespace.
type ResourceReference struct {
	// Kind of the resource.
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
	// Name of the resource.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// UID tells it from another one of the same name.
	UID string `json:"uid"`
}

// TaskSpec is one operation on one resource. It never changes.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="a task never changes; change the resource's own spec, and a new task brings it about"
type TaskSpec struct {
	// Resource to work on.
	Resource ResourceReference `json:"resource"`
	// Operation to do.
	Operation Operation `json:"operation"`
	// Generation of the resource that the task brings about.
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation"`
	// Replicas is how many nodes each node group of a cluster shall have, by the group's name in the cluster's spec.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Replicas map[string]int32 `json:"replicas,omitempty"`
	// Priority: tasks with a higher one go first.
	// +optional
	Priority int32 `json:"priority,omitempty"`
	// Reason of a repair: what was found, or who asked.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// Automatic tells a repair, or a plan, that the platform asked for from one that a person did.
	// +optional
	Automatic bool `json:"automatic,omitempty"`
	// Force lets a repair go on where data or quorum may be lost.
	// +optional
	Force bool `json:"force,omitempty"`
	// Change of the resource's spec that is planned, as a JSON merge patch. What is asked for stays as it is.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Change string `json:"change,omitempty"`
	// Deadline after which the task fails.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
}

// TaskPhase is where a task is.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Superseded;Cancelled
type TaskPhase string

// The phases of a task.
const (
	TaskPending    TaskPhase = "Pending"
	TaskRunning    TaskPhase = "Running"
	TaskSucceeded  TaskPhase = "Succeeded"
	TaskFailed     TaskPhase = "Failed"
	TaskSuperseded TaskPhase = "Superseded"
	TaskCancelled  TaskPhase = "Cancelled"
)

// Finished tells whether nothing more will happen.
func (p TaskPhase) Finished() bool {
	return p == TaskSucceeded || p == TaskFailed || p == TaskSuperseded || p == TaskCancelled
}

// StepStatus is one step of a task.
type StepStatus struct {
	// Name of the step.
	Name string `json:"name"`
	// Phase of the step.
	Phase TaskPhase `json:"phase"`
	// Attempts so far.
	Attempts int32 `json:"attempts,omitempty"`
	// Message says what the step does just now, or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
	// StartedAt is when the step began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// FinishedAt is when it ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// TaskStatus is how far it is.
type TaskStatus struct {
	// Phase is where the task is.
	// +optional
	Phase TaskPhase `json:"phase,omitempty"`
	// Steps in their order.
	// +listType=map
	// +listMapKey=name
	Steps []StepStatus `json:"steps,omitempty"`
	// Progress, such as 2/5.
	// +optional
	Progress string `json:"progress,omitempty"`
	// Step that runs now.
	// +optional
	Step string `json:"step,omitempty"`
	// Attempts of the task as a whole.
	Attempts int32 `json:"attempts,omitempty"`
	// Worker that does it.
	// +optional
	Worker string `json:"worker,omitempty"`
	// Fence numbers the turns of workers, ever higher: a worker that finds another number than its own has been replaced.
	// +optional
	Fence int64 `json:"fence,omitempty"`
	// PlannedBy is the version of the platform that chose the steps.
	// +optional
	PlannedBy string `json:"plannedBy,omitempty"`
	// Error that ended it, or that is being retried.
	// +optional
	Error string `json:"error,omitempty"`
	// Outputs are facts that the steps found, such as endpoint; the resource's controller copies them into its status.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`
	// RetryAt is when a failed step is tried again.
	// +optional
	RetryAt *metav1.Time `json:"retryAt,omitempty"`
	// StartedAt is when the task began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// FinishedAt is when it ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// Task is one operation on one resource: its steps, how far they are, and what went wrong.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tsk,categories=plasmacloud
// +kubebuilder:selectablefield:JSONPath=`.spec.resource.name`
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Operation",type=string,JSONPath=`.spec.operation`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.resource.kind`
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.resource.name`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.error`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Task struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the operation and its resource.
	Spec TaskSpec `json:"spec"`
	// Status is how far it is.
	Status TaskStatus `json:"status,omitempty"`
}

// TaskList is a list of tasks.
// +kubebuilder:object:root=true
type TaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Task `json:"items"`
}

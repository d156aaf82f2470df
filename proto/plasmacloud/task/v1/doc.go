// Package taskv1 is the contract between the platform and deployers that run elsewhere, in a customer's own network: they
// come and ask for what is to be done, say that they are still at it, and report. The platform never calls them. All but
// this file is generated from task.proto by `make generate`.
package taskv1

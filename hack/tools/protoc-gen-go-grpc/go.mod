// The generator of services' code, pinned apart from the product's dependencies.
module plasmacloud.io/plasmacloud/hack/tools/protoc-gen-go-grpc

go 1.26.0

tool google.golang.org/grpc/cmd/protoc-gen-go-grpc

require (
	google.golang.org/grpc/cmd/protoc-gen-go-grpc v1.6.2 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

package schemas

import "slices"

// BoxURI is the URI of the schema of [Box].
const BoxURI = BaseURI + "schema/box/v1"

// Box is `with.box` of a stage that runs a tool: what the tool is let into.
// Schema: box.v1.json. The zero value is the best box of the machine with
// nothing let in.
type Box struct {
	// Method is bubblewrap, landlock, sandbox-exec or none; the best that works here when empty.
	Method string `json:"method,omitempty"`
	// Admit names what is let in: "network", "gpu".
	Admit []string `json:"admit,omitempty"`
	// Roots are further folders of the machine.
	Roots []BoxRoot `json:"roots,omitempty"`
}

// BoxRoot is a folder of the machine that is let into a box by name.
type BoxRoot struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Write bool   `json:"write,omitempty"`
}

// What a box can admit by name.
const (
	AdmitNetwork = "network"
	AdmitGPU     = "gpu"
)

// Facts of every run of a tool.
const (
	FactBox      = "box"      // the method; "none" without a box
	FactNetwork  = "network"  // one of the values below
	FactAdmitted = "admitted" // names, comma-separated; absent when nothing was admitted
	FactBoot     = "boot"     // digest of the machine's boot id; absent where the system tells none
	FactBoxMaker = "boxMaker" // digest of the program that makes the box (bwrap); absent where the kernel does it
)

// Values of [FactNetwork].
const (
	NetworkDenied      = "denied"
	NetworkAdmitted    = "admitted"
	NetworkNotEnforced = "not enforced"
)

// Attributes that the isolation probe states (in-toto SCAI v0.3), each only when shown.
const (
	NetworkIsDenied         = "NETWORK_DENIED"
	MetadataAddressIsDenied = "METADATA_ADDRESS_DENIED"
	CanaryUnreadable        = "CANARY_UNREADABLE"
	ForeignBinaryDenied     = "FOREIGN_BINARY_DENIED"
	HomesHidden             = "HOMES_HIDDEN"
	OtherModelsHidden       = "OTHER_MODELS_HIDDEN"
	CredentialsAbsent       = "CREDENTIALS_ABSENT"
	AgentSocketsAbsent      = "AGENT_SOCKETS_ABSENT"
	SourceReadOnly          = "SOURCE_READ_ONLY"
	UID65534                = "UID_65534"
	NoCapabilities          = "NO_CAPABILITIES"
	NoNewPrivileges         = "NO_NEW_PRIVILEGES"
	PrivateTmp              = "PRIVATE_TMP"
	PrivateProc             = "PRIVATE_PROC"
	PrivateShm              = "PRIVATE_SHM"
	ComputationWorks        = "COMPUTATION_WORKS"
)

var boxAttributes = []string{
	NetworkIsDenied, MetadataAddressIsDenied, CanaryUnreadable, ForeignBinaryDenied, HomesHidden, OtherModelsHidden, CredentialsAbsent,
	AgentSocketsAbsent, SourceReadOnly, UID65534, NoCapabilities, NoNewPrivileges, PrivateTmp, PrivateProc, PrivateShm, ComputationWorks,
}

// BoxAttributes lists the attributes of a box that a probe can show, in the order in which they are stated.
func BoxAttributes() []string { return slices.Clone(boxAttributes) }

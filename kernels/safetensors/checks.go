package safetensors

// The checks of a snapshot, as findings name them.
const (
	CheckFormat        = "safetensors format"
	CheckMissingShard  = "shard is missing"
	CheckStrayShard    = "unindexed shard"
	CheckTwoShards     = "tensor in two shards"
	CheckUnindexed     = "tensor missing in the index"
	CheckWrongShard    = "tensor in another shard"
	CheckMissingTensor = "tensor missing in the shards"
	CheckShape         = "shape disagrees with config.json"
	CheckModelTensor   = "tensor that config.json calls for is missing"
	CheckConfig        = "config.json"
)

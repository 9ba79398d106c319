"""What several tests of anchored networks use."""


def training_tuples(net, x):
    """Return the tuples the stem saw in one training pass."""
    tuples = []
    layer = net.anchored_layer
    original = layer.map_tuples
    layer.map_tuples = lambda t: (tuples.append(t.detach()), original(t))[1]
    net.train()(x)
    del layer.map_tuples
    return tuples[-1]

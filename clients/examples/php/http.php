<?php
// Sends a message with a delay, pulls it when it is due, and acks it: plain HTTP, with PHP's streams.

declare(strict_types=1);

$topic = getenv('DELAYBRIDGE_URL') . '/v1/topics/' . rawurlencode(getenv('TOPIC'));

/** Sends JSON and returns the answer. With tokens, add the header Authorization: Bearer <token>. */
function post(string $url, array $body): array
{
    $text = file_get_contents($url, false, stream_context_create(['http' => [
        'method' => 'POST',
        'header' => 'Content-Type: application/json',
        'content' => json_encode($body, JSON_THROW_ON_ERROR),
        'ignore_errors' => true, // returns the answer of a refused request too
        'timeout' => 90,
    ]]));
    if ($text === false || !preg_match('/^HTTP\/\S+ 2/', $http_response_header[0])) {
        throw new RuntimeException(($http_response_header[0] ?? 'no answer') . ": $text"); // a problem by RFC 9457
    }
    return json_decode($text, true, flags: JSON_THROW_ON_ERROR);
}

$id = uniqid('order-');
// If the answer is lost, send again with the same id: it makes no second message.
$sent = post("$topic/messages", ['id' => $id, 'body' => ['order' => 1001], 'delay' => '1s']);
echo "sent $id due {$sent['due_at']}\n";

for ($acked = false; !$acked;) {
    $pulled = post("$topic/pull", ['max' => 10, 'wait' => '20s', 'lease' => '30s']);
    foreach ($pulled['messages'] as $got) {
        echo "got {$got['id']} ", json_encode($got['body']), "\n";
        // The receipt names this delivery alone, so a late ack can't end a later one.
        post("$topic/messages/" . rawurlencode($got['id']) . '/ack', ['receipt' => $got['receipt']]);
        echo "acked {$got['id']}\n";
        $acked = $acked || $got['id'] === $id;
    }
}

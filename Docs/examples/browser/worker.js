// Shows what arrives. The browser has decrypted it (RFC 8291); the text is the JSON of the desktop.
addEventListener("push", event => event.waitUntil(receive(event.data)));

async function receive(data) {
  const {type, title, message = ""} = data.json();
  if (type === "ERASE") {
    // The desktop has ended the pairing: its push server answers that this browser is gone.
    return (await registration.pushManager.getSubscription())?.unsubscribe();
  }
  const text = {title: title || "Paired", message};
  await registration.showNotification(text.title, {body: text.message});
  for (const page of await clients.matchAll({includeUncontrolled: true})) page.postMessage(text);
}

addEventListener("notificationclick", event => {
  event.notification.close();
  event.waitUntil(clients.openWindow("."));
});

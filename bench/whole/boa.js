// Recursion, strings, objects, arrays, closures and exceptions, as scripts of all kinds have them.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

class Account {
  constructor(owner) { this.owner = owner; this.balance = 0; this.entries = []; }
  pay(amount) {
    if (amount < 0) throw new RangeError("negative: " + amount);
    this.balance += amount;
    this.entries.push({ amount, after: this.balance });
    return this;
  }
}

function words(count) {
  const parts = [];
  for (let i = 0; i < count; i++) parts.push("word" + (i * 7919) % 1009);
  return parts.join(" ");
}

function frequencies(text) {
  const counts = new Map();
  for (const word of text.split(" ")) counts.set(word, (counts.get(word) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

let checksum = fib(20);
for (let round = 0; round < 20; round++) {
  const account = new Account("a" + round);
  for (let i = 0; i < 3000; i++) {
    try { account.pay(i % 50 === 0 ? -1 : i); } catch (error) { checksum += error.message.length; }
  }
  checksum += account.entries.filter(entry => entry.amount % 3 === 0).map(entry => entry.after).length;
  const found = frequencies(words(4000));
  checksum += found.length + found[0][1];
  checksum += JSON.stringify(found.slice(0, 50)).length;
  checksum += words(500).replace(/word(\d)/g, "w$1").length;
}
checksum
